import type { IncomingMessage } from 'node:http'
import type { Plugin } from 'graphql-yoga'
import type { SignIns } from '../../access/sign-ins.ts'
import type { Viewer } from '../../access/viewer.ts'
import { UnauthenticatedError } from '../../lib/errors.ts'

/**
 * The viewer that `Bearer <token>` stands for.
 * @throws UnauthenticatedError where it is missing, of another scheme, or not good (any more).
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

/** What a request carries from its arrival to the context of its operation. */
export interface RequestContext {
  viewer?: Viewer
  /** The request as it came. */
  req?: IncomingMessage
}

/** Knows who is asking before anything of the request's body is read. */
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
