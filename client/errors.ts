/** The reason why a request failed, with a message for people to read. */
export class ParleyError extends Error {
  /**
   * `NETWORK` if there was no response; otherwise a code of the server (`UNAUTHENTICATED`, `NOT_FOUND`, `CONFLICT`, …).
   * Newer servers may add codes, so handle unknown codes.
   */
  readonly code: string
  /** When to retry, if the server specified it. */
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
  FORBIDDEN: 'You no longer have access to this.',
  NOT_FOUND: 'Not found, or you have no access to it.',
}

/**
 * Converts any failure of a request or subscription into a ParleyError: GraphQL errors, a closed socket, or a thrown
 * value.
 */
export function errorOf(failure: unknown): ParleyError {
  if (failure instanceof ParleyError) return failure
  if (Array.isArray(failure)) return errorOfFailures(failure as Failure[])
  if (isClose(failure)) {
    if (failure.code === UNAUTHENTICATED_CLOSE)
      return new ParleyError(MEANINGS['UNAUTHENTICATED'] ?? '', 'UNAUTHENTICATED')
    const why = [failure.code, failure.reason].filter(Boolean).join(': ')
    return new ParleyError(`The server closed the connection (${why}).`, 'NETWORK')
  }
  return new ParleyError(
    failure instanceof Error ? failure.message : 'The request failed for an unknown reason.',
    'NETWORK',
  )
}

/** Whether the value is a close event of a socket, in browsers and in Node. */
export function isClose(failure: unknown): failure is { code: number; reason?: string } {
  return typeof failure === 'object' && failure !== null && 'code' in failure && typeof failure.code === 'number'
}

/** Whether the server closed the socket because it does not accept the token. */
export const isUnauthenticatedClose = (failure: unknown) => isClose(failure) && failure.code === UNAUTHENTICATED_CLOSE

function errorOfFailures(failures: Failure[]): ParleyError {
  const words = failures.map(({ message, extensions: { code = '', requestId } = {} }) => {
    const meaning = MEANINGS[code] ?? message
    return requestId === undefined ? meaning : `${meaning} (request ${requestId})`
  })
  const { code = 'INTERNAL_SERVER_ERROR', retryAfterMs = null } = failures[0]?.extensions ?? {}
  return new ParleyError(words.join(' '), code, retryAfterMs)
}

/** Returns the payload of a mutation. @throws ParleyError with the reason and the code if the mutation failed */
export function payloadOf<Result extends { __typename: string }, Name extends Result['__typename']>(
  result: Result,
  name: Name,
): Extract<Result, { __typename: Name }> {
  if (result.__typename === name) return result as Extract<Result, { __typename: Name }>
  const { message, code, retryAfterMs } = result as { message?: string; code?: string; retryAfterMs?: number }
  throw new ParleyError(
    message ?? `The server returned ${result.__typename}.`,
    code ?? codeOf(result.__typename),
    retryAfterMs ?? null,
  )
}

/** Converts the name of an error type to a code: `NotFoundError` to `NOT_FOUND`. */
function codeOf(typename: string): string {
  return typename
    .replace(/Error$/, '')
    .replace(/(?<=[a-z])(?=[A-Z])/g, '_')
    .toUpperCase()
}
