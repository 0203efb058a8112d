import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Plugin } from 'graphql-yoga'
import { UNKNOWN_CREDENTIALS } from '../../access/credential-lookups.ts'
import type { SessionCookie } from '../../access/sessions.ts'
import type { SignIns } from '../../access/sign-ins.ts'
import type { Viewer } from '../../access/viewer.ts'
import { UnauthenticatedError } from '../../lib/errors.ts'
import { forRequester } from '../../lib/requester-context.ts'
import type { PublicUrl } from '../../platform/public-url.ts'
import { isSchemeKnown, setSessionCookie, trustedCookieOf } from './cookies.ts'
import type { Origins } from './origins.ts'

/** The credentials of a request. */
export interface Credentials {
  /** The bearer token, from `bearerOf`. It takes precedence over the cookie. */
  bearer: string | null
  /** The secret in the session cookie, if the request may use it: see `trustedCookieOf`. */
  cookie: string | null
  /** The client's IP address. */
  address: string | undefined
}

/** Returns the token of `Bearer <token>`; null for any other scheme, such as the `Basic` of a proxy. */
export function bearerOf(authorization: unknown): string | null {
  return typeof authorization === 'string' ? (/^Bearer +(\S+)$/i.exec(authorization.trim())?.[1] ?? null) : null
}

/**
 * Returns the viewer of a bearer token or session.
 * @param onRenewed sets the cookie again with a later expiry; null if the response cannot set cookies
 * @throws UnauthenticatedError if there are no credentials, or if they are invalid, revoked or expired. If there is
 * a token, the session is not tried.
 */
export async function authenticate(
  signIns: SignIns,
  { bearer, cookie, address }: Credentials,
  onRenewed: ((cookie: SessionCookie) => void) | null = null,
): Promise<Viewer> {
  const viewer = await forRequester(UNKNOWN_CREDENTIALS, async () => {
    if (bearer !== null) return signIns.authenticate(bearer, address)
    if (cookie === null) return null
    const resumed = await signIns.resume(cookie, address, { renews: onRenewed !== null })
    if (resumed?.renewed) onRenewed?.(resumed.renewed)
    return resumed?.viewer ?? null
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
      const bearer = bearerOf(request.headers.authorization)
      const cookie = bearer === null ? trustedCookieOf(request, origins) : null
      const credentials = { bearer, cookie, address: request.socket.remoteAddress }
      const renew = (renewed: SessionCookie) => setSessionCookie(request, response, renewed, publicUrl)
      return authenticate(signIns, credentials, isSchemeKnown(request, publicUrl) ? renew : null)
    },
  }
}

/** The state of a request from its arrival until its operation runs. */
export interface RequestContext {
  viewer?: Viewer
  /** The original request and its response. */
  req?: IncomingMessage
  res?: ServerResponse
  /** The size of the body. */
  requestBytes?: number
}

/** Authenticates a request before its body is read. */
export function useAuthentication({ viewerOf }: Authentication): Plugin<object, RequestContext> {
  return {
    async onRequestParse({ serverContext }) {
      const { req, res } = serverContext
      if (req === undefined || res === undefined) throw new UnauthenticatedError()
      serverContext.viewer = await viewerOf(req, res)
    },
  }
}
