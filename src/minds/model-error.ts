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
 * What a failure is to be put down to. `provider`: it cannot be reached, has no capacity, or does not know the key or the
 * model; `prompt`: it does not take what it was sent; `unclear`: its answer broke off, or it broke, which some servers say of a
 * prompt that is too long; `limit`: the model came to the end of what it may write.
 */
export type Blame = 'provider' | 'prompt' | 'unclear' | 'limit'

/** The model cannot be had, or failed. The message is for the run's `error`. */
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

/** Below 400: a response that was good until it broke off. */
function blameForStatus({ statusCode = 200, isRetryable }: APICallError | StreamProviderError): Blame {
  if (ABOUT_THE_CALLER.includes(statusCode)) return 'provider'
  return isRetryable || statusCode < 400 ? 'unclear' : 'prompt'
}

const LONGEST_ERROR = 1000
/** Beyond it nothing is looked for that had to be taken out. */
const LONGEST_READ = 20_000

/** A model's failure in the provider's words. */
function readableModelError(error: unknown): string {
  const cause = RetryError.isInstance(error) ? (error.lastError ?? error) : error
  if (APICallError.isInstance(cause)) {
    return `${cause.message}${cause.statusCode === undefined ? '' : ` (HTTP ${cause.statusCode})`}`
  }
  const { message } = (cause ?? {}) as { message?: unknown }
  return typeof message === 'string' ? message : messageOf(cause)
}
