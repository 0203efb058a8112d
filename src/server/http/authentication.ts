import type { IncomingMessage } from 'node:http'
import type { Plugin } from 'graphql-yoga'
import type { SignIns } from '../../access/sign-ins.ts'
import type { Viewer } from '../../access/viewer.ts'
import { UnauthenticatedError } from '../../lib/errors.ts'

/**
 * Returns the viewer of a `Bearer <token>` header.
 * @throws UnauthenticatedError if the token is missing, of another scheme, invalid, revoked or expired
 */
export async function authenticate(
  signIns: SignIns,
  authorization: unknown,
  address: string | undefined,
): Promise<Viewer> {
  const bearer = typeof authorization === 'string' ? /^Bearer +(\S+)$/i.exec(authorization.trim())?.[1] : undefined
  const viewer = bearer === undefined ? null : await signIns.authenticate(bearer, address)
  if (viewer === null) throw new UnauthenticatedError()
  return viewer
}

/** The context of a request, from its arrival to its operation. */
export interface RequestContext {
  viewer?: Viewer
  /** The original request. */
  req?: IncomingMessage
}

/** Authenticates a request before any of its body is read. */
export function useAuthentication(signIns: SignIns): Plugin<object, RequestContext> {
  return {
    async onRequestParse({ request, serverContext }) {
      serverContext.viewer = await authenticate(
        signIns,
        request.headers.get('authorization'),
        serverContext.req?.socket.remoteAddress,
      )
    },
  }
}
