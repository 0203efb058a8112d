import type { Plugin } from 'graphql-yoga'
import type { Tokens } from '../../access/tokens.ts'
import type { Viewer } from '../../access/viewer.ts'
import { UnauthenticatedError } from '../../lib/errors.ts'

/**
 * The viewer that `Bearer <token>` stands for.
 * @throws UnauthenticatedError where it is missing, of another scheme, or not good (any more).
 */
export async function authenticate(tokens: Pick<Tokens, 'authenticate'>, authorization: unknown): Promise<Viewer> {
  const bearer = typeof authorization === 'string' ? /^Bearer +(\S+)$/i.exec(authorization.trim())?.[1] : undefined
  const viewer = bearer === undefined ? null : await tokens.authenticate(bearer)
  if (viewer === null) throw new UnauthenticatedError()
  return viewer
}

/** What a request carries from its arrival to the context of its operation. */
export interface RequestContext {
  viewer?: Viewer
}

/** Knows who is asking before anything of the request's body is read. */
export function useAuthentication(tokens: Pick<Tokens, 'authenticate'>): Plugin<object, RequestContext> {
  return {
    async onRequestParse({ request, serverContext }) {
      serverContext.viewer = await authenticate(tokens, request.headers.get('authorization'))
    },
  }
}
