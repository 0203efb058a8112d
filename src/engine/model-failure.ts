import {
  AISDKError,
  APICallError,
  InvalidResponseDataError,
  JSONParseError,
  RetryError,
  StreamProviderError,
  TypeValidationError,
} from 'ai'
import { cut, storableText } from '../lib/json.ts'
import type { ModelFault } from '../lib/model-fault.ts'
import { type ProviderError, readProviderError } from '../models/provider-error.ts'
import type { Blame } from '../rules/run-end.ts'

/**
 * The model could not be called, or failed. The error's message is the provider's message without secrets. It becomes
 * the run's `error`.
 */
export class ModelFailure extends Error {
  readonly blame: Blame
  readonly fault: ModelFault
  /** Whether the same request may succeed when it is repeated. */
  readonly isRetryable: boolean

  /** @param offered the names of the tools that were offered to the model, in order */
  constructor(
    cause: unknown,
    {
      blame,
      redact = (text) => text,
      offered = [],
    }: { blame?: Blame; redact?: Redact; offered?: readonly string[] } = {},
  ) {
    const read = readProviderError(cause)
    const words = cut(redact(storableText(cut(read.words, LONGEST_READ))), LONGEST_ERROR)
    const { statusCode = 0 } = responseTo(cause) ?? {}
    const status = statusCode < 400 ? '' : ` (HTTP ${statusCode})`
    const tool = read.fault === 'REFUSED' ? refusedTool(read.words, offered) : null
    super(`${words}${status}${tool === null ? '' : ` The provider refused the definition of the tool ${tool}.`}`, {
      cause,
    })
    this.name = 'ModelFailure'
    this.blame = blame ?? blameFor(cause, read)
    this.fault = read.fault
    this.isRetryable = read.isRetryable
  }
}

type Redact = (text: string) => string

const LONGEST_ERROR = 1000
/** Only this many characters of an error message are processed by redaction. */
const LONGEST_READ = 20_000

const QUOTES = ['"', "'", '`']

/** Returns the failed HTTP request; null if another error occurred. */
function responseTo(error: unknown): APICallError | null {
  const cause = RetryError.isInstance(error) ? error.lastError : error
  return APICallError.isInstance(cause) ? cause : null
}

const FROM_THE_PROVIDER = [
  APICallError,
  InvalidResponseDataError,
  JSONParseError,
  RetryError,
  StreamProviderError,
  TypeValidationError,
]

function blameFor(cause: unknown, { fault }: ProviderError): Blame {
  // The SDK rejected the prompt before it sent anything.
  if (AISDKError.isInstance(cause) && !FROM_THE_PROVIDER.some((kind) => kind.isInstance(cause))) return 'prompt'
  if (['NOT_SET_UP', 'KEY', 'QUOTA', 'MODEL', 'RATE', 'UNCONFIRMED'].includes(fault)) return 'provider'
  if (['REFUSED', 'TOO_LONG', 'FILTERED', 'CONFIDENTIAL'].includes(fault)) return 'prompt'
  const request = responseTo(cause)
  return request !== null && request.statusCode === undefined ? 'provider' : 'unclear'
}

/**
 * Returns the tool whose definition a provider rejected; null if the error has another cause. OpenAI's message contains
 * the tool's name, and the messages of Anthropic and Google contain its index.
 */
function refusedTool(words: string, offered: readonly string[]): string | null {
  if (!/tool|function/i.test(words)) return null
  const named = offered.filter((name) => QUOTES.some((quote) => words.includes(`${quote}${name}${quote}`)))
  if (named.length === 1) return named[0] ?? null
  const index =
    /\b(?:tools\.(\d+)|function_declarations\[(\d+)\]|tools\[(\d+)\]\.(?:function|custom|input_schema|name|type|parameters))/.exec(
      words,
    )
  const at = index?.slice(1).find((one) => one !== undefined)
  return at === undefined ? null : (offered[Number(at)] ?? null)
}
