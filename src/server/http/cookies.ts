import type { IncomingMessage, ServerResponse } from 'node:http'
import type { SessionCookie } from '../../access/sessions.ts'
import { CrossSiteError } from '../../lib/errors.ts'
import type { PublicUrl } from '../../platform/public-url.ts'
import { askedOriginOf } from './asked-origin.ts'
import type { Origins } from './origins.ts'

type Headers = IncomingMessage['headers']

const NAME = 'parley_session'
/** A page of another site cannot send this header without a preflight, which the server refuses. */
const CSRF_HEADER = 'x-parley-csrf'

/** Returns the secret in a request's session cookie; null if there is none. */
export function sessionCookieOf({ cookie = '' }: Headers): string | null {
  for (const pair of cookie.split(';')) {
    const [name, value] = pair.split('=', 2)
    if (name?.trim() === NAME && value !== undefined) return value.trim()
  }
  return null
}

/**
 * Returns the secret in the session cookie of a request that comes from a page of an allowed origin; null if there is no
 * cookie. @throws CrossSiteError if there is one, and the request may come from elsewhere
 */
export function trustedCookieOf(
  request: Pick<IncomingMessage, 'headers' | 'method'>,
  origins: OriginCheck,
): string | null {
  const secret = sessionCookieOf(request.headers)
  if (secret === null) return null
  if (request.headers[CSRF_HEADER] !== '1' || !isFromAllowedPage(request, origins)) throw new CrossSiteError()
  return secret
}

/** @throws CrossSiteError for a request of a page that is not allowed, or without the header */
export function checkPage(request: Pick<IncomingMessage, 'headers'>, origins: OriginCheck): void {
  if (request.headers.origin === undefined) return
  if (request.headers[CSRF_HEADER] !== '1' || !origins.allows(request)) throw new CrossSiteError()
}

type OriginCheck = Pick<Origins, 'allows'>

/** Browsers name no origin in what a page reads from its own server. */
function isFromAllowedPage(request: Pick<IncomingMessage, 'headers' | 'method'>, origins: OriginCheck): boolean {
  const { origin } = request.headers
  if (origin !== undefined) return origins.allows(request)
  return request.method === 'GET' && request.headers['sec-fetch-site'] === 'same-origin'
}

/** Sets the session cookie of a browser, or removes it. */
export function setSessionCookie(
  request: Pick<IncomingMessage, 'headers'>,
  response: Pick<ServerResponse, 'appendHeader'>,
  cookie: SessionCookie | null,
  { basePath, origin }: Pick<PublicUrl, 'basePath' | 'origin'>,
): void {
  const isSecure = (origin ?? askedOriginOf(request.headers))?.startsWith('https:') === true
  const maxAge = cookie === null ? 0 : cookie.maxAgeSeconds
  const attributes = [
    `${NAME}=${cookie?.secret ?? ''}`,
    `Path=${basePath === '' ? '/' : basePath}`,
    ...(maxAge === null ? [] : [`Max-Age=${maxAge}`]),
    'HttpOnly',
    'SameSite=Lax',
    ...(isSecure ? ['Secure'] : []),
  ]
  response.appendHeader('set-cookie', attributes.join('; '))
}
