/** The error codes in the result unions of mutations (`ErrorCode` in the API). */
export type DomainErrorCode = 'BAD_INPUT' | 'FORBIDDEN' | 'NOT_FOUND' | 'CONFLICT' | 'LIMIT_EXCEEDED' | 'RATE_LIMITED'

/** An expected failure. Clients and models see the message, so it says what to do. */
export class DomainError extends Error {
  readonly code: DomainErrorCode
  constructor(code: DomainErrorCode, message: string) {
    super(message)
    this.name = new.target.name
    this.code = code
  }
}

/** The input is invalid. `field` is the dotted path of the input field; null if the error concerns no single field. */
export class BadInputError extends DomainError {
  readonly field: string | null
  constructor(message: string, field: string | null = null) {
    super('BAD_INPUT', message)
    this.field = field
  }
}

/** A file has more bytes than PARLEY_MAX_FILE_BYTES. */
export class FileTooLargeError extends BadInputError {
  constructor(mostBytes: number) {
    super(`The file is too large: at most ${mostBytes} bytes (PARLEY_MAX_FILE_BYTES).`)
  }
}

/** The viewer can see the object but is not allowed to perform the operation. */
export class ForbiddenError extends DomainError {
  constructor(message: string) {
    super('FORBIDDEN', message)
  }
}

/** The object does not exist or is not visible to the viewer; clients cannot distinguish the two cases. */
export class NotFoundError extends DomainError {
  constructor(message: string) {
    super('NOT_FOUND', message)
  }
}

/** The object was deleted during the request. Events about the object are not delivered. */
export class GoneError extends NotFoundError {
  constructor() {
    super('The object was deleted during the request.')
  }
}

/** The event refers to an object that this viewer may not see, so it is not delivered to the viewer. */
export class HiddenError extends NotFoundError {
  constructor() {
    super('The object does not exist, or you may not see it.')
  }
}

/** The current state of the object does not allow the operation. */
export class ConflictError extends DomainError {
  constructor(message: string) {
    super('CONFLICT', message)
  }
}

/** A limit on the number of objects is reached. */
export class LimitExceededError extends DomainError {
  constructor(message: string) {
    super('LIMIT_EXCEEDED', message)
  }
}

/** Too many requests; the caller can retry after `retryAfterMs`. */
export class RateLimitedError extends DomainError {
  readonly retryAfterMs: number
  constructor(message: string, retryAfterMs: number) {
    super('RATE_LIMITED', message)
    this.retryAfterMs = retryAfterMs
  }
}

/**
 * Another site may have caused a request with a cookie: by sending the request from its page, or by setting the cookie.
 */
export class CrossSiteError extends ForbiddenError {
  constructor(
    message = 'A request with the session cookie needs the header x-parley-csrf: 1 and an allowed Origin. Alternatively, send a bearer token.',
  ) {
    super(message)
  }
}

/**
 * The bearer token or session is missing, unknown, expired or revoked. Returned as a top-level GraphQL error, never as
 * a member of a result union.
 */
export class UnauthenticatedError extends Error {
  constructor(message = 'A valid bearer token is required: send the header "Authorization: Bearer <token>".') {
    super(message)
    this.name = 'UnauthenticatedError'
  }
}

/** The consumer has fallen too far behind and must resume from its last cursor. */
export class SlowConsumerError extends Error {
  constructor() {
    super('The subscriber lags too far behind. Subscribe again, with the last cursor as `after`.')
    this.name = 'SlowConsumerError'
  }
}

/** Returns the message of anything thrown, for a log or a run's `error`. */
export function messageOf(error: unknown): string {
  if (error instanceof Error) return error.message
  return typeof error === 'string' ? error : (JSON.stringify(error) ?? String(error))
}
