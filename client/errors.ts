/** Why the server did not do what it was asked, in words for people. */
export class ParleyError extends Error {
  /**
   * `NETWORK` where nothing answered; a code of the server's (`UNAUTHENTICATED`, `NOT_FOUND`, `CONFLICT`, …) where it did.
   * Codes may be added: have a default.
   */
  readonly code: string
  /** When to try again, where the server says so. */
  readonly retryAfterMs: number | null

  constructor(message: string, code: string, retryAfterMs: number | null = null) {
    super(message)
    this.name = 'ParleyError'
    this.code = code
    this.retryAfterMs = retryAfterMs
  }
}

interface Failure {
  message: string
  extensions?: { code?: string; requestId?: string; retryAfterMs?: number }
}

const UNAUTHENTICATED_CLOSE = 4403
const MEANINGS: Record<string, string> = {
  UNAUTHENTICATED: 'The server does not accept this token. It may have been revoked or have expired.',
  FORBIDDEN: 'You may not see this any more.',
  NOT_FOUND: 'This does not exist, or not for you.',
}

/** Whatever a request or subscription failed with, as one error: errors of GraphQL, a closed socket, or anything thrown. */
export function errorOf(failure: unknown): ParleyError {
  if (failure instanceof ParleyError) return failure
  if (Array.isArray(failure)) return errorOfFailures(failure as Failure[])
  if (isClose(failure)) {
    if (failure.code === UNAUTHENTICATED_CLOSE)
      return new ParleyError(MEANINGS['UNAUTHENTICATED'] ?? '', 'UNAUTHENTICATED')
    const why = [failure.code, failure.reason].filter(Boolean).join(': ')
    return new ParleyError(`The server closed the connection (${why}).`, 'NETWORK')
  }
  return new ParleyError(failure instanceof Error ? failure.message : 'Something went wrong.', 'NETWORK')
}

/** A socket that was closed, as browsers and Node tell of it. */
export function isClose(failure: unknown): failure is { code: number; reason?: string } {
  return typeof failure === 'object' && failure !== null && 'code' in failure && typeof failure.code === 'number'
}

/** Whether a socket was closed since its token is not known, or not any more. */
export const isUnauthenticatedClose = (failure: unknown) => isClose(failure) && failure.code === UNAUTHENTICATED_CLOSE

function errorOfFailures(failures: Failure[]): ParleyError {
  const words = failures.map(({ message, extensions: { code = '', requestId } = {} }) => {
    const meaning = MEANINGS[code] ?? message
    return requestId === undefined ? meaning : `${meaning} (request ${requestId})`
  })
  const { code = 'INTERNAL_SERVER_ERROR', retryAfterMs = null } = failures[0]?.extensions ?? {}
  return new ParleyError(words.join(' '), code, retryAfterMs)
}

/**
 * The result of a mutation where it did what it was asked to.
 * @throws ParleyError with the reason and its code where it did not.
 */
export function payloadOf<Result extends { __typename: string }, Name extends Result['__typename']>(
  result: Result,
  name: Name,
): Extract<Result, { __typename: Name }> {
  if (result.__typename === name) return result as Extract<Result, { __typename: Name }>
  const { message, code, retryAfterMs } = result as { message?: string; code?: string; retryAfterMs?: number }
  throw new ParleyError(
    message ?? `The server answered with ${result.__typename}.`,
    code ?? codeOf(result.__typename),
    retryAfterMs ?? null,
  )
}

/** `NotFoundError` → `NOT_FOUND`. */
function codeOf(typename: string): string {
  return typename
    .replace(/Error$/, '')
    .replace(/(?<=[a-z])(?=[A-Z])/g, '_')
    .toUpperCase()
}
