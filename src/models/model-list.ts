import { messageOf } from '../lib/errors.ts'
import { parseModelName } from '../lib/model-name.ts'
import type { ModelApi } from '../lib/model-provider.ts'
import { modelFetch } from './model-fetch.ts'
import type { ProviderSettings } from './provider.ts'
import { errorWordsIn, pageWordsIn } from './provider-error.ts'

/** The result of a request for a provider's list of models. */
export type ModelList =
  /** `models` contains the provider's own names, sorted. It is empty if the provider cannot list them. */
  | { type: 'reached'; models: string[] }
  /**
   * The provider rejects the key or is unavailable. `words` is a sentence: the provider's own message, if it sent one.
   */
  | { type: 'failed'; words: string; isKeyRefused: boolean }

const MOST_MODELS = 1000
/** The maximum size of a list. The longest known list has about 1 MB. */
const LARGEST_LIST_BYTES = 8 * 1024 * 1024
/** How many characters of a text are read and redacted. */
const LONGEST_WORDS = 20_000

/** Requests a provider's list of models. Never throws. */
export async function listModels(provider: ProviderSettings, timeoutMs: number): Promise<ModelList> {
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    const { url, headers } = requestOf(provider)
    const response = await modelFetch(url, {
      headers: { accept: 'application/json', ...headers, ...provider.headers },
      signal,
    })
    const text = await boundedText(response)
    if (!response.ok) return failureOf(response.status, text ?? '')
    return { type: 'reached', models: text === null ? [] : namesIn(text) }
  } catch (error) {
    if (signal.aborted) return notReached(`The provider did not answer within ${Math.round(timeoutMs / 1000)} s.`)
    return notReached(wordsOfNoConnection(error, provider))
  }
}

const notReached = (words: string): ModelList => ({ type: 'failed', words, isKeyRefused: false })

const UNKNOWN_NAME = ['ENOTFOUND', 'EAI_AGAIN']
const NOBODY_LISTENS = ['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT', 'UND_ERR_CONNECT_TIMEOUT']

function wordsOfNoConnection(error: unknown, { api, baseUrl }: ProviderSettings): string {
  const { cause } = error as { cause?: { code?: unknown } }
  const code = String(cause?.code)
  const url = URL.parse(baseUrl ?? DEFAULT_URLS[api])
  if (url !== null && UNKNOWN_NAME.includes(code))
    return `The server found no address for ${url.hostname} (${code}): check the name, and the network of the server.`
  if (url !== null && NOBODY_LISTENS.includes(code))
    return `Nothing answers at ${url.origin}${url.pathname.replace(/\/$/, '')} (${code}).`
  return `Could not connect to the provider: ${causeOf(error)}.`
}

const DEFAULT_URLS: Record<ModelApi, string> = {
  openai: 'https://api.openai.com/v1',
  'openai-chat': 'https://api.openai.com/v1',
  anthropic: 'https://api.anthropic.com/v1',
  google: 'https://generativelanguage.googleapis.com/v1beta',
}

function requestOf({ api, baseUrl, apiKey }: ProviderSettings): { url: string; headers: Record<string, string> } {
  const base = (baseUrl ?? DEFAULT_URLS[api]).replace(/\/+$/, '')
  if (api === 'anthropic') {
    const version = { 'anthropic-version': '2023-06-01' }
    return {
      url: `${base}/models?limit=1000`,
      headers: apiKey === null ? version : { ...version, 'x-api-key': apiKey },
    }
  }
  if (api === 'google')
    return { url: `${base}/models?pageSize=1000`, headers: apiKey === null ? {} : { 'x-goog-api-key': apiKey } }
  return { url: `${base}/models`, headers: apiKey === null ? {} : { authorization: `Bearer ${apiKey}` } }
}

/** Reads a body as text; returns null if it is too long. */
async function boundedText({ body }: Response): Promise<string | null> {
  if (body === null) return ''
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.byteLength
    if (bytes > LARGEST_LIST_BYTES) return null
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/**
 * Decides what the status of a failed request means. If the key is rejected or the server fails, model calls would fail
 * too. Any other error only means that the provider does not list its models, or not for this key, because some keys
 * only allow generation.
 */
function failureOf(status: number, text: string): ModelList {
  const isKeyRefused = isKeyRefusal(status, text)
  if (status < 500 && !isKeyRefused) return { type: 'reached', models: [] }
  const words = wordsIn(text) ?? `The provider responded with HTTP status ${status}.`
  return { type: 'failed', words: words.slice(0, LONGEST_WORDS), isKeyRefused }
}

/** Whether the response means that the key was rejected. Google rejects a wrong key with status 400. */
function isKeyRefusal(status: number, text: string): boolean {
  return status === 401 || (status === 400 && /api[ _]key/i.test(text))
}

function wordsIn(text: string): string | null {
  const page = pageWordsIn(text)
  if (page !== null) return `The provider sent a web page: ${page}`
  try {
    return errorWordsIn(JSON.parse(text))
  } catch {
    const line = text.replace(/\s+/g, ' ').trim()
    return line === '' ? null : line
  }
}

function namesIn(text: string): string[] {
  let read: { data?: unknown; models?: unknown } | null
  try {
    read = JSON.parse(text)
  } catch {
    return []
  }
  const rows = [read?.data, read?.models, read].find((part) => Array.isArray(part)) as unknown[] | undefined
  const names = (rows ?? []).map(nameIn).filter((name) => name !== null && parseModelName(`any:${name}`) !== null)
  return [...new Set(names as string[])].sort().slice(0, MOST_MODELS)
}

/** Returns the name of a listed model; null if the model does not generate text. Google prefixes names with `models/`. */
function nameIn(row: unknown): string | null {
  if (typeof row !== 'object' || row === null) return null
  const { id, name, supportedGenerationMethods: methods } = row as Record<string, unknown>
  if (Array.isArray(methods) && !methods.includes('generateContent')) return null
  if (typeof id === 'string') return id
  return typeof name === 'string' ? name.replace(/^models\//, '') : null
}

/**
 * Returns the reason why `fetch` failed, from the error's `cause`. If `fetch` tried several addresses, the cause only
 * has a code.
 */
function causeOf(error: unknown): string {
  const { cause } = error as { cause?: { code?: unknown; message?: unknown } }
  const found = [cause?.message, cause?.code].find((part) => typeof part === 'string' && part !== '')
  return (typeof found === 'string' ? found : messageOf(error)).slice(0, LONGEST_WORDS)
}
