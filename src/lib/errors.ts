/** The codes that a client may meet in a mutation's result union (the contract's enum ErrorCode). */
export type DomainErrorCode = 'BAD_INPUT' | 'FORBIDDEN' | 'NOT_FOUND' | 'CONFLICT' | 'LIMIT_EXCEEDED' | 'RATE_LIMITED'

/** A failure that a caller is expected to handle. Its message is shown to clients and models: it says what to do. */
export class DomainError extends Error {
  readonly code: DomainErrorCode
  constructor(code: DomainErrorCode, message: string) {
    super(message)
    this.name = new.target.name
    this.code = code
  }
}

/** What was given cannot be accepted. `field` is the dotted path of the input field at fault, where there is one. */
export class BadInputError extends DomainError {
  readonly field: string | null
  constructor(message: string, field: string | null = null) {
    super('BAD_INPUT', message)
    this.field = field
  }
}

/** The viewer may see the thing but not do this with it. */
export class ForbiddenError extends DomainError {
  constructor(message: string) {
    super('FORBIDDEN', message)
  }
}

/** No such thing, or none that the viewer may see: the two are the same to a client. */
export class NotFoundError extends DomainError {
  constructor(message: string) {
    super('NOT_FOUND', message)
  }
}

/** It was deleted while it was being answered. An event about it is told to nobody. */
export class GoneError extends NotFoundError {
  constructor() {
    super('It was deleted meanwhile.')
  }
}

/** An event names what this viewer may not see: it is not delivered to that viewer. */
export class HiddenError extends NotFoundError {
  constructor() {
    super('There is no such thing, or none that you may see.')
  }
}

/** The state of the thing does not allow it (any more). */
export class ConflictError extends DomainError {
  constructor(message: string) {
    super('CONFLICT', message)
  }
}

/** A count that the product bounds is at its bound. */
export class LimitExceededError extends DomainError {
  constructor(message: string) {
    super('LIMIT_EXCEEDED', message)
  }
}

/** Too much at once; try again after `retryAfterMs`. */
export class RateLimitedError extends DomainError {
  readonly retryAfterMs: number
  constructor(message: string, retryAfterMs: number) {
    super('RATE_LIMITED', message)
    this.retryAfterMs = retryAfterMs
  }
}

/** The bearer token is missing, unknown, expired or revoked. Top-level, never a union member. */
export class UnauthenticatedError extends Error {
  constructor(message = 'A valid bearer token is required: send the header "Authorization: Bearer <token>".') {
    super(message)
    this.name = 'UnauthenticatedError'
  }
}

/** The text of whatever was thrown, for a log or a run's `error`. */
export function messageOf(error: unknown): string {
  if (error instanceof Error) return error.message
  return typeof error === 'string' ? error : (JSON.stringify(error) ?? String(error))
}
