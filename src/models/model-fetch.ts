import { APICallError } from 'ai'
import { cut } from '../lib/json.ts'
import { mappedStream } from '../lib/mapped-stream.ts'
import { errorWordsIn, pageWordsIn } from './provider-error.ts'

/**
 * The maximum size of a response. It is far more than any response needs, and limits the memory that an endless body
 * takes.
 */
const LARGEST_ANSWER_BYTES = 64 * 1024 * 1024

/**
 * A `fetch` for providers. Does not follow redirects, because they would send a custom header with a key to another
 * host. Aborts responses larger than 64 MiB.
 * @throws APICallError if a stream of events was requested and the response is another document
 */
export async function modelFetch(...[input, init]: Parameters<typeof fetch>): Promise<Response> {
  const response = await fetch(input, { ...init, redirect: 'error' })
  if (response.body === null) return response
  const bounded = new Response(boundedBody(response.body), response)
  const isDocument = /\b(json|html)\b/.test(response.headers.get('content-type') ?? '')
  return response.ok && isDocument && isForStream(input, init) ? unlessDocument(bounded, String(input)) : bounded
}

function boundedBody(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  let bytes = 0
  return mappedStream(body, {
    push(chunk) {
      bytes += chunk.byteLength
      if (bytes > LARGEST_ANSWER_BYTES) throw new Error('The provider sent more than 64 MiB.')
      return [chunk]
    },
  })
}

function isForStream(input: Parameters<typeof fetch>[0], init: RequestInit | undefined): boolean {
  const { body } = init ?? {}
  return (typeof body === 'string' && body.includes('"stream":true')) || String(input).includes('alt=sse')
}

const LONGEST_SHOWN = 300

/**
 * Returns the response if it is a stream of events, even if the server declares it as JSON. For any other document,
 * throws its content as the provider's error.
 */
async function unlessDocument(response: Response, url: string): Promise<Response> {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  const { value: first = new Uint8Array() } = await reader.read()
  const body = startingWith(first, reader)
  if (!/^\s*[{[<]/.test(new TextDecoder().decode(first))) return new Response(body, response)
  const text = await new Response(body).text()
  const page = pageWordsIn(text)
  throw new APICallError({
    message: page === null ? jsonWords(text) : `The provider sent a web page: ${page}`,
    url,
    requestBodyValues: {},
    statusCode: response.status,
    responseBody: text,
    isRetryable: false,
  })
}

function startingWith(first: Uint8Array, rest: ReadableStreamDefaultReader<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(first),
    async pull(controller) {
      const { done, value } = await rest.read()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    cancel: (reason) => rest.cancel(reason),
  })
}

function jsonWords(text: string): string {
  try {
    const words = errorWordsIn(JSON.parse(text))
    if (words !== null) return words
  } catch {}
  return `The provider sent a document instead of a stream of events: ${cut(text.replace(/\s+/g, ' ').trim(), LONGEST_SHOWN)}`
}
