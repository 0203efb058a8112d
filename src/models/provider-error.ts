// Parses errors from providers in all of their formats.
import { APICallError, InvalidResponseDataError, JSONParseError, RetryError, TypeValidationError } from 'ai'
import { messageOf } from '../lib/errors.ts'
import { cut } from '../lib/json.ts'
import { type ModelFault, ModelNotSetUpError, RemoteAgentError } from '../lib/model-fault.ts'

/** An error from a provider. */
export interface ProviderError {
  /** The provider's own message, if it sent one. The message can contain secrets. */
  words: string
  fault: ModelFault
  /** The HTTP status; null if there was no response. */
  status: number | null
  /** Whether the same request may succeed when it is repeated. */
  isRetryable: boolean
}

/** Parses a thrown error, or the error part of a stream. */
export function readProviderError(error: unknown): ProviderError {
  if (error instanceof ModelNotSetUpError)
    return { words: error.message, fault: 'NOT_SET_UP', status: null, isRetryable: false }
  if (error instanceof RemoteAgentError)
    return { words: error.message, fault: error.fault, status: null, isRetryable: error.isRetryable }
  const cause = RetryError.isInstance(error) ? (error.lastError ?? error) : error
  const { words, codes, status } = reportOf(cause)
  const fault = faultOf({ words, codes, status })
  const isFinal = APICallError.isInstance(cause) && !cause.isRetryable
  return { words, fault, status, isRetryable: RETRYABLE.has(fault) && !isFinal }
}

/** Returns the message in a JSON value that a provider sent as an error; null if it contains none. */
export function errorWordsIn(value: unknown): string | null {
  return sentError(value)?.words ?? null
}

/**
 * Returns the title of an HTML page or, if it has none, the beginning of its text. Returns null if the text is not an
 * HTML page. Reads only the beginning of the page. The patterns take linear time, because an element without an end
 * extends to the end of the text, and a tag ends before the next tag.
 */
export function pageWordsIn(text: string): string | null {
  const page = text.slice(0, LONGEST_READ)
  if (!/^\s*(<!doctype html|<html|<head|<body)/i.test(page)) return null
  const body = page.replace(/<(script|style|head)\b.*?(<\/\1>|$)/gis, ' ')
  const title = /<(title|h1)\b[^<>]*>(.*?)(<\/\1>|$)/is.exec(page)?.[2] ?? body
  return cut(oneLineOf(title.replace(/<[^<>]*>/g, ' ')), LONGEST_PAGE_WORDS)
}

/** The maximum number of characters to read of a page or of any other text that is not JSON. */
const LONGEST_READ = 65_536
const LONGEST_PAGE_WORDS = 300
const LONGEST_SHOWN = 300

/** The content of an error. `codes` are the provider's names for this kind of error, in lower case. */
interface Report {
  words: string
  codes: string
  status: number | null
}

function reportOf(error: unknown): Report {
  if (APICallError.isInstance(error)) {
    const { message, statusCode: status = null, responseBody = '' } = error
    const sent = sentError(parsedJson(responseBody))
    return { words: sent?.words ?? pageOrText(responseBody) ?? message, codes: sent?.codes ?? '', status }
  }
  if (TypeValidationError.isInstance(error)) {
    const sent = sentError(error.value)
    const malformed = `The provider sent something that its API does not define: ${cut(JSON.stringify(error.value) ?? '', LONGEST_SHOWN)}`
    return sent ?? { words: malformed, codes: '', status: null }
  }
  if (JSONParseError.isInstance(error)) {
    const page = pageWordsIn(error.text)
    const words = `The provider sent text that is not JSON: ${page ?? cut(oneLineOf(error.text), LONGEST_SHOWN)}`
    return { words, codes: '', status: null }
  }
  if (InvalidResponseDataError.isInstance(error) && error.message.includes('without a finish reason'))
    return { words: STREAM_ENDED, codes: 'stream_ended', status: null }
  const sent = sentError(error)
  if (sent === null) return { words: messageOf(error), codes: '', status: null }
  const { statusCode } = error as { statusCode?: unknown }
  return { ...sent, status: typeof statusCode === 'number' ? statusCode : sent.status }
}

const STREAM_ENDED = "The provider's stream ended before the answer was complete."

/** Parses an error object, a string, or a value that contains one of these. Returns null if it contains no message. */
function sentError(value: unknown, depth = 0): Report | null {
  if (typeof value === 'string' && value.trim() !== '') return { words: value, codes: '', status: null }
  if (typeof value !== 'object' || value === null || depth > 3) return null
  if (Array.isArray(value)) return sentError(value[0], depth + 1)
  const { error, errors, detail, message, msg, error_message, error_description } = value as Record<string, unknown>
  const own = codesOf(value as Record<string, unknown>)
  const text = [message, error_message, error_description, msg].find((one) => typeof one === 'string' && one !== '')
  const inner = sentError(error, depth + 1)
  if (inner !== null) {
    const codes = `${own.codes} ${inner.codes}`.trim()
    return { words: inner.words, codes, status: inner.status ?? own.status }
  }
  if (typeof text === 'string') return { words: `${text}${upstreamWords(value)}`, ...own }
  return sentError(detail ?? errors, depth + 1)
}

/** Returns another provider's message that a gateway has passed on in `metadata.raw`. */
function upstreamWords(value: object): string {
  const { metadata } = value as { metadata?: { raw?: unknown } | null }
  const raw = metadata?.raw
  const words = errorWordsIn(typeof raw === 'string' ? (parsedJson(raw) ?? raw) : raw)
  return words === null ? '' : `: ${words}`
}

function codesOf({ code, type, status, error_type, reason }: Record<string, unknown>): Omit<Report, 'words'> {
  const all = [code, type, status, error_type, reason]
  const numbers = all.map(Number).filter((number) => number >= 400 && number < 600)
  const names = all.filter((one) => typeof one === 'string').join(' ')
  return { codes: names.toLowerCase(), status: numbers[0] ?? null }
}

const RETRYABLE: ReadonlySet<ModelFault> = new Set(['RATE', 'UNAVAILABLE', 'BROKEN_OFF'])

/** Maps the names of errors to faults. The first match is used. */
const BY_CODE: readonly [RegExp, ModelFault][] = [
  [/api_?key|authentication|unauthenticated|unauthorized|permission|forbidden/, 'KEY'],
  [/context_length|string_above_max|request_too_large/, 'TOO_LONG'],
  [/not_found/, 'MODEL'],
  [/content_filter|content_policy|safety/, 'FILTERED'],
  [/rate_?limit|resource_exhausted|too_many_requests/, 'RATE'],
  [/overloaded|unavailable|server_error|internal|api_error|timeout/, 'UNAVAILABLE'],
  [/invalid|bad_?request|unsupported|unprocessable/, 'REFUSED'],
]
const BY_STATUS: Readonly<Record<number, ModelFault>> = {
  401: 'KEY',
  402: 'QUOTA',
  403: 'KEY',
  404: 'MODEL',
  408: 'UNAVAILABLE',
  409: 'UNAVAILABLE',
  413: 'TOO_LONG',
  429: 'RATE',
}
const HAS_NO_QUOTA = /insufficient[_ ](quota|credits?|balance|funds)|billing_|credit balance is too low/i
const HAS_BAD_KEY = /api key (not valid|is not valid|is invalid|expired)|(incorrect|invalid) api key/i
const IS_TOO_LONG = /context (length|window|size)|context too long|maximum context|too many tokens|prompt is too long/i
const HAS_NO_CONNECTION = /cannot connect|fetch failed|ECONN|ENOTFOUND|EAI_AGAIN|timed? ?out/i

function faultOf({ words, codes, status }: Report): ModelFault {
  const byStatus = BY_STATUS[status ?? 0]
  if (HAS_NO_QUOTA.test(`${codes} ${words}`)) return 'QUOTA'
  if (byStatus !== undefined) return byStatus
  if (status !== null && status >= 500) return 'UNAVAILABLE'
  if (HAS_BAD_KEY.test(words)) return 'KEY'
  if (IS_TOO_LONG.test(words)) return 'TOO_LONG'
  const byCode = BY_CODE.find(([pattern]) => pattern.test(codes))?.[1]
  const isRefusal = status !== null && status >= 400
  if (byCode !== undefined) return isRefusal && byCode === 'UNAVAILABLE' ? 'REFUSED' : byCode
  if (isRefusal) return 'REFUSED'
  return codes === '' && HAS_NO_CONNECTION.test(words) ? 'UNAVAILABLE' : 'BROKEN_OFF'
}

function pageOrText(body: string): string | null {
  const page = pageWordsIn(body)
  if (page !== null) return `The provider sent a web page: ${page}`
  const text = oneLineOf(body)
  return text === '' || text.startsWith('{') || text.startsWith('[') ? null : cut(text, LONGEST_SHOWN)
}

const oneLineOf = (text: string) => text.slice(0, LONGEST_READ).replace(/\s+/g, ' ').trim()

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
