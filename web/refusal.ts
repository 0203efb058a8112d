/** What the server would not do, in its own words. */
export class Refusal extends Error {}

interface Failure {
  message: string
  extensions?: { code?: string; requestId?: string }
}

const MEANINGS: Record<string, string> = {
  UNAUTHENTICATED: 'The server does not know this token. It may have been revoked, or have expired.',
  FORBIDDEN: 'You may not see this any more.',
  NOT_FOUND: 'This does not exist, or not for you.',
}

/** What went wrong, for people: a mutation's expected failure, errors of GraphQL, a closed socket, or anything thrown. */
export function wordsOf(error: unknown): string {
  if (Array.isArray(error)) return (error as Failure[]).map(wordsOfFailure).join(' ')
  if (error instanceof Error) return error.message
  if (typeof error === 'object' && error !== null && 'code' in error) {
    const { code, reason } = error as { code: number; reason?: string }
    if (code === 4403) return MEANINGS['UNAUTHENTICATED'] ?? ''
    return `The server closed the connection (${[code, reason].filter(Boolean).join(': ')}).`
  }
  return 'Something went wrong.'
}

function wordsOfFailure({ message, extensions: { code = '', requestId } = {} }: Failure): string {
  const meaning = MEANINGS[code]
  return [meaning ?? message, requestId === undefined ? '' : `(request ${requestId})`].join(' ').trim()
}

/** The result of a mutation where it did what it was asked to. @throws Refusal with the reason where it did not. */
export function payloadOf<Result extends { __typename: string }, Name extends Result['__typename']>(
  result: Result,
  name: Name,
): Extract<Result, { __typename: Name }> {
  if (result.__typename === name) return result as Extract<Result, { __typename: Name }>
  throw new Refusal('message' in result ? String(result.message) : `The server answered with ${result.__typename}.`)
}
