import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Plugin } from 'graphql-yoga'
import type { SessionCookie } from '../../access/sessions.ts'
import type { SignIns } from '../../access/sign-ins.ts'
import type { Viewer } from '../../access/viewer.ts'
import { UnauthenticatedError } from '../../lib/errors.ts'
import { forRequester } from '../../lib/requester-context.ts'
import type { PublicUrl } from '../../platform/public-url.ts'
import { setSessionCookie, trustedCookieOf } from './cookies.ts'
import type { Origins } from './origins.ts'

/** The requester of database statements until a token is checked: these statements do not wait behind those of viewers. */
const AUTHENTICATION = 'authentication'

/** How a client signs in. */
export interface Credentials {
  /** `Bearer <token>`. Wins over the cookie. */
  authorization: unknown
  /** The secret of a session, if the request may use it: see `trustedCookieOf`. */
  cookie: string | null
  /** The client's IP address. */
  address: string | undefined
}

/**
 * Returns the viewer of a bearer token or session. `onRenewed` is called if the browser should keep its cookie for longer.
 * @throws UnauthenticatedError if both are missing, or the first is of another scheme, invalid, revoked or expired
 */
export async function authenticate(
  signIns: SignIns,
  { authorization, cookie, address }: Credentials,
  onRenewed: (cookie: SessionCookie) => void = () => {},
): Promise<Viewer> {
  const viewer = await forRequester(AUTHENTICATION, async () => {
    if (authorization === undefined || authorization === null) {
      const resumed = cookie === null ? null : await signIns.resume(cookie, address)
      if (resumed?.renewed) onRenewed(resumed.renewed)
      return resumed?.viewer ?? null
    }
    const bearer = typeof authorization === 'string' ? /^Bearer +(\S+)$/i.exec(authorization.trim())?.[1] : undefined
    return bearer === undefined ? null : signIns.authenticate(bearer, address)
  })
  if (viewer === null) throw new UnauthenticatedError()
  return viewer
}

/** Authenticates HTTP requests. */
export interface Authentication {
  /** @throws UnauthenticatedError, CrossSiteError */
  viewerOf(request: IncomingMessage, response: ServerResponse): Promise<Viewer>
}

export function createAuthentication(
  signIns: SignIns,
  { origins, publicUrl }: { origins: Pick<Origins, 'allows'>; publicUrl: Pick<PublicUrl, 'basePath' | 'origin'> },
): Authentication {
  return {
    async viewerOf(request, response) {
      const { authorization } = request.headers
      const cookie = authorization === undefined ? trustedCookieOf(request, origins) : null
      const credentials = { authorization, cookie, address: request.socket.remoteAddress }
      return authenticate(signIns, credentials, (renewed) => setSessionCookie(request, response, renewed, publicUrl))
    },
  }
}

/** The context of a request, from its arrival to its operation. */
export interface RequestContext {
  viewer?: Viewer
  /** The original request and its response. */
  req?: IncomingMessage
  res?: ServerResponse
}

/** Authenticates a request before any of its body is read. */
export function useAuthentication({ viewerOf }: Authentication): Plugin<object, RequestContext> {
  return {
    async onRequestParse({ serverContext }) {
      const { req, res } = serverContext
      if (req === undefined || res === undefined) throw new UnauthenticatedError()
      serverContext.viewer = await viewerOf(req, res)
    },
  }
}
