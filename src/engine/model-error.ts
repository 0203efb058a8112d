import { APICallError, RetryError } from 'ai'
import { messageOf } from '../lib/errors.ts'
import { cut } from '../lib/json.ts'

/** The model cannot be had, or failed: the run fails with this message. */
export class ModelFailure extends Error {
  constructor(cause: unknown) {
    super(readableModelError(cause), { cause })
    this.name = 'ModelFailure'
  }
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
  return cut(text.replace(SECRETS, '[removed]'), LONGEST_ERROR)
}
