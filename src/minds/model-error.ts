import {
  AISDKError,
  APICallError,
  InvalidResponseDataError,
  JSONParseError,
  RetryError,
  StreamProviderError,
  TypeValidationError,
} from 'ai'
import { messageOf } from '../lib/errors.ts'
import { cut, storableText } from '../lib/json.ts'

/**
 * The cause of a failure. `provider`: unreachable, without capacity, or it rejected the key or model name; `prompt`:
 * the provider refused the input; `unclear`: the response broke off or the server failed, which some servers do for a
 * prompt that is too long; `limit`: the model reached its output limit.
 */
export type Blame = 'provider' | 'prompt' | 'unclear' | 'limit'

/** The model could not be called, or failed. The message becomes the run's `error`. */
export class ModelFailure extends Error {
  readonly blame: Blame
  constructor(cause: unknown, { blame = blameFor(cause), redact = (text: string) => text } = {}) {
    super(cut(redact(storableText(cut(readableModelError(cause), LONGEST_READ))), LONGEST_ERROR), { cause })
    this.name = 'ModelFailure'
    this.blame = blame
  }
}

const ABOUT_THE_CALLER = [401, 402, 403, 404, 429]
const ABOUT_THE_ANSWER = [InvalidResponseDataError, JSONParseError, TypeValidationError]

function blameFor(cause: unknown): Blame {
  if (RetryError.isInstance(cause)) return blameFor(cause.lastError)
  if (APICallError.isInstance(cause)) return cause.statusCode === undefined ? 'provider' : blameForStatus(cause)
  if (StreamProviderError.isInstance(cause)) return blameForStatus(cause)
  if (ABOUT_THE_ANSWER.some((kind) => kind.isInstance(cause))) return 'unclear'
  return AISDKError.isInstance(cause) ? 'prompt' : 'unclear'
}

/** A status below 400 means that the response started well and then broke off. */
function blameForStatus({ statusCode = 200, isRetryable }: APICallError | StreamProviderError): Blame {
  if (ABOUT_THE_CALLER.includes(statusCode)) return 'provider'
  return isRetryable || statusCode < 400 ? 'unclear' : 'prompt'
}

const LONGEST_ERROR = 1000
/** Redaction reads no further than this. */
const LONGEST_READ = 20_000

/** Returns the provider's own error message. */
function readableModelError(error: unknown): string {
  const cause = RetryError.isInstance(error) ? (error.lastError ?? error) : error
  if (APICallError.isInstance(cause)) {
    return `${cause.message}${cause.statusCode === undefined ? '' : ` (HTTP ${cause.statusCode})`}`
  }
  const { message } = (cause ?? {}) as { message?: unknown }
  return typeof message === 'string' ? message : messageOf(cause)
}
