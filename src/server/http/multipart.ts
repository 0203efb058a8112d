import type { ExecutionResult } from 'graphql'
import { type Plugin, processRegularResult } from 'graphql-yoga'
import { jsonOf, topLevelError } from '../../graphql/masking.ts'

/** The interval of empty parts, which keep proxies from closing the connection. */
const HEARTBEAT_MS = 12_000
const CONTENT_TYPE = 'multipart/mixed;boundary="graphql";subscriptionSpec=1.0'
const partOf = (body: string) => `\r\ncontent-type: application/json\r\n\r\n${body}\r\n--graphql`

/**
 * Delivers subscriptions in the HTTP protocol of Apollo's clients, for requests with `Accept: multipart/mixed;
 * subscriptionSpec=1.0`.
 * https://www.apollographql.com/docs/graphos/routing/operations/subscriptions/multipart-protocol
 */
export function useMultipartSubscriptions(): Plugin {
  return {
    onResultProcess({ request, result, setResultProcessor }) {
      const accept = request.headers.get('accept') ?? ''
      if (!/multipart\/mixed/.test(accept) || !/subscriptionSpec/.test(accept) || !(Symbol.asyncIterator in result))
        return
      setResultProcessor(
        (results, { Response, ReadableStream, TextEncoder }) =>
          new Response(
            streamOf(results as AsyncIterable<ExecutionResult>, ReadableStream, new TextEncoder()) as never,
            { headers: { 'content-type': CONTENT_TYPE } },
          ),
        'multipart/mixed' as never,
      )
    },
  }
}

const HOW_TO_SUBSCRIBE =
  'Subscribe over a WebSocket, or with `Accept: text/event-stream` or `Accept: multipart/mixed; subscriptionSpec=1.0`.'

/**
 * Handles requests whose `Accept` header matches no supported format. The result of a query or mutation is sent as
 * JSON, because the operation has already been executed. A subscription is ended, and the error message says which
 * header to send.
 */
export function useDeliverable(): Plugin {
  return {
    onResultProcess({ result, resultProcessor, setResultProcessor }) {
      if (resultProcessor !== undefined) return
      if (!(Symbol.asyncIterator in result)) {
        setResultProcessor(processRegularResult as never, 'application/json')
        return
      }
      const end = async () => void (await result[Symbol.asyncIterator]().return?.())
      setResultProcessor((_, { Response }) => {
        void end().catch(() => {})
        const errors = [topLevelError('BAD_USER_INPUT', HOW_TO_SUBSCRIBE)]
        const headers = { 'content-type': 'application/json; charset=utf-8' }
        return new Response(jsonOf({ errors }), { status: 406, headers })
      }, 'application/json')
    },
  }
}

/**
 * Returns the body of a part. An error that ends the subscription becomes the protocol's `errors`. An event, which
 * has already been serialized, becomes the `payload`.
 */
function bodyOf(result: ExecutionResult & { stringify?: () => string }): string {
  return result.stringify === undefined && result.data == null && result.errors !== undefined
    ? `{"payload":null,"errors":${JSON.stringify(JSON.parse(jsonOf(result)).errors)}}`
    : `{"payload":${jsonOf(result)}}`
}

function streamOf(results: AsyncIterable<ExecutionResult>, Stream: typeof ReadableStream, encoder: TextEncoder) {
  const iterator = results[Symbol.asyncIterator]()
  let heartbeat: NodeJS.Timeout
  return new Stream({
    start(controller) {
      controller.enqueue(encoder.encode(`--graphql${partOf('{}')}`))
      heartbeat = setInterval(() => {
        if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(partOf('{}')))
      }, HEARTBEAT_MS)
    },
    async pull(controller) {
      const { done, value } = await iterator.next()
      if (!done) return controller.enqueue(encoder.encode(partOf(bodyOf(value))))
      clearInterval(heartbeat)
      controller.enqueue(encoder.encode('--\r\n'))
      controller.close()
    },
    async cancel() {
      clearInterval(heartbeat)
      await iterator.return?.()
    },
  })
}
