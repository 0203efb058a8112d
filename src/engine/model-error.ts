import { APICallError, RetryError } from 'ai'
import { messageOf } from '../lib/errors.ts'
import { cut, storableText } from '../lib/json.ts'

/**
 * What a failure is to be put down to. `provider`: it cannot be reached, has no capacity, or does not know the key or the
 * model; `prompt`: it does not take what it was sent; `unclear`: some servers say of a prompt that is too long that they broke.
 */
export type Blame = 'provider' | 'prompt' | 'unclear'

/** The model cannot be had, or failed: the run fails with this message. */
export class ModelFailure extends Error {
  readonly blame: Blame
  constructor(cause: unknown, blame = blameFor(cause)) {
    super(readableModelError(cause), { cause })
    this.name = 'ModelFailure'
    this.blame = blame
  }
}

const ABOUT_THE_CALLER = [401, 402, 403, 404, 429]

function blameFor(cause: unknown): Blame {
  if (RetryError.isInstance(cause)) return blameFor(cause.lastError)
  if (!APICallError.isInstance(cause)) return 'prompt'
  if (cause.statusCode === undefined || ABOUT_THE_CALLER.includes(cause.statusCode)) return 'provider'
  return cause.isRetryable ? 'unclear' : 'prompt'
}

const LONGEST_ERROR = 1000
/** What providers echo of keys in their messages: `sk-…`, bearer tokens, and keys in query strings. */
const SECRETS = /\b(sk|pk|rk|key)-[\w*.-]{4,}|Bearer\s+[\w.~+/=-]+|([?&](api[-_]?key|key|token)=)[^&\s]+/gi

/** A model's failure in the provider's words, for the run's `error`: secrets removed, and no longer than it need be. */
function readableModelError(error: unknown): string {
  const cause = RetryError.isInstance(error) ? (error.lastError ?? error) : error
  const text = APICallError.isInstance(cause)
    ? `${cause.message}${cause.statusCode === undefined ? '' : ` (HTTP ${cause.statusCode})`}`
    : messageOf(cause)
  return cut(storableText(text).replace(SECRETS, '[removed]'), LONGEST_ERROR)
}
