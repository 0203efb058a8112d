import type { IncomingMessage, ServerResponse } from 'node:http'
import type { SessionCookie } from '../../access/sessions.ts'
import { ConflictError, CrossSiteError } from '../../lib/errors.ts'
import type { PublicUrl } from '../../platform/public-url.ts'
import { askedOriginOf } from './asked-origin.ts'
import type { Origins } from './origins.ts'

type Headers = IncomingMessage['headers']

const NAME = 'parley_session'
/** A page of another site cannot send this header without a preflight, which the server refuses. */
const CSRF_HEADER = 'x-parley-csrf'

/**
 * Returns the different secrets in a request's session cookies. A browser sends several if another site of the
 * domain, or a Parley server at another path of the host, has also set such a cookie. Only the user can tell which
 * cookie is theirs.
 */
export function sessionCookiesOf({ cookie = '' }: Headers): string[] {
  const secrets = new Set<string>()
  for (const pair of cookie.split(';')) {
    const [name, value] = pair.split('=', 2)
    if (name?.trim() === NAME && value !== undefined) secrets.add(value.trim())
  }
  return [...secrets]
}

/**
 * Returns the secret in the session cookie of a request that comes from a page of an allowed origin; null without a
 * cookie.
 * @throws CrossSiteError if there are several cookies, or if the request may come from another site
 */
export function trustedCookieOf(
  request: Pick<IncomingMessage, 'headers' | 'method'>,
  origins: OriginCheck,
): string | null {
  const [secret, ...others] = trustedCookiesOf(request, origins)
  if (others.length > 0)
    throw new CrossSiteError(
      'The request has several session cookies: clear the cookies of this site and sign in again.',
    )
  return secret ?? null
}

/** Like `trustedCookieOf`, but returns the secrets of all session cookies of the request. */
export function trustedCookiesOf(request: Pick<IncomingMessage, 'headers' | 'method'>, origins: OriginCheck): string[] {
  const secrets = sessionCookiesOf(request.headers)
  const isTrusted = request.headers[CSRF_HEADER] === '1' && isFromAllowedPage(request, origins)
  if (secrets.length > 0 && !isTrusted) throw new CrossSiteError()
  return secrets
}

/** @throws CrossSiteError if the page is not allowed, or if the request lacks the header */
export function checkPage(request: Pick<IncomingMessage, 'headers'>, origins: OriginCheck): void {
  if (request.headers.origin === undefined) return
  if (request.headers[CSRF_HEADER] !== '1' || !origins.allows(request)) throw new CrossSiteError()
}

type OriginCheck = Pick<Origins, 'allows'>

/**
 * Whether the request comes from an allowed page. Browsers send no Origin header with a same-origin GET, but they
 * send one with a cross-origin GET that has the custom header. Old browsers do not send `Sec-Fetch-Site`, and other
 * browsers do not send it over plain http.
 */
function isFromAllowedPage(request: Pick<IncomingMessage, 'headers' | 'method'>, origins: OriginCheck): boolean {
  const { origin, 'sec-fetch-site': site } = request.headers
  if (origin !== undefined) return origins.allows(request)
  return request.method === 'GET' && (site === undefined || site === 'same-origin')
}

/**
 * Whether the request or PARLEY_PUBLIC_URL shows which scheme the browser uses. If neither does, a proxy may have
 * terminated https, and a cookie set now could lack `Secure`.
 */
export const isSchemeKnown = ({ headers }: Pick<IncomingMessage, 'headers'>, { origin }: Pick<PublicUrl, 'origin'>) =>
  origin !== null || headers.origin !== undefined || headers['x-forwarded-proto'] !== undefined

/**
 * The name prefix and path of the cookies of one kind of attempt. Each sign-in or MCP authorization that a browser
 * starts gets its own cookie.
 */
interface AttemptCookies {
  prefix: string
  path: string
}
const SIGN_INS: AttemptCookies = { prefix: 'parley_oidc_', path: '/auth/oidc' }
const MCP_AUTHORIZATIONS: AttemptCookies = { prefix: 'parley_mcp_', path: '/auth/mcp' }

function attemptsIn({ cookie = '' }: Headers, { prefix }: AttemptCookies): Map<string, string> {
  const attempts = new Map<string, string>()
  for (const pair of cookie.split(';')) {
    const [name = '', value = ''] = pair.trim().split('=', 2)
    if (name.startsWith(prefix)) attempts.set(name.slice(prefix.length), value)
  }
  return attempts
}

/** Returns the sealed state of each sign-in that a browser has started, by key, oldest first. */
export const attemptCookiesOf = (headers: Headers): Map<string, string> => attemptsIn(headers, SIGN_INS)

/** Returns the secrets of the authorizations at MCP servers that a browser has started, by attempt, oldest first. */
export const mcpAttemptsOf = (headers: Headers): Map<string, string> => attemptsIn(headers, MCP_AUTHORIZATIONS)

/** Sets the cookie of a sign-in that a browser has started; deletes the cookie if `sealed` is null. */
export function setAttemptCookie(
  request: Pick<IncomingMessage, 'headers'>,
  response: Pick<ServerResponse, 'appendHeader'>,
  { sealed, ...attempt }: { key: string; sealed: string | null; maxAgeSeconds: number },
  publicUrl: Pick<PublicUrl, 'basePath' | 'origin'>,
): void {
  setAttempt(request, response, { ...SIGN_INS, ...attempt, value: sealed }, publicUrl)
}

/** Sets the cookie of an authorization that a browser has started; deletes the cookie if `secret` is null. */
export function setMcpAttempt(
  request: Pick<IncomingMessage, 'headers'>,
  response: Pick<ServerResponse, 'appendHeader'>,
  { secret, ...attempt }: { key: string; secret: string | null; maxAgeSeconds: number },
  publicUrl: Pick<PublicUrl, 'basePath' | 'origin'>,
): void {
  setAttempt(request, response, { ...MCP_AUTHORIZATIONS, ...attempt, value: secret }, publicUrl)
}

function setAttempt(
  request: Pick<IncomingMessage, 'headers'>,
  response: Pick<ServerResponse, 'appendHeader'>,
  attempt: AttemptCookies & { key: string; value: string | null; maxAgeSeconds: number },
  publicUrl: Pick<PublicUrl, 'basePath' | 'origin'>,
): void {
  const { prefix, path, key, value, maxAgeSeconds } = attempt
  const attributes = [
    `${prefix}${key}=${value ?? ''}`,
    `Path=${publicUrl.basePath}${path}`,
    `Max-Age=${maxAgeSeconds}`,
    'HttpOnly',
    'SameSite=Lax',
    ...(isSecure(request, publicUrl) ? ['Secure'] : []),
  ]
  response.appendHeader('set-cookie', attributes.join('; '))
}

/** Whether the browser uses https to reach the server, according to the request and PARLEY_PUBLIC_URL. */
const isSecure = ({ headers }: Pick<IncomingMessage, 'headers'>, { origin }: Pick<PublicUrl, 'origin'>) =>
  [origin, headers.origin, askedOriginOf(headers)].some((one) => one?.startsWith('https:'))

/**
 * Checks that the browser keeps the session cookie that `setSessionCookie` sets, because a link that works once must
 * not be used up without a session. Browsers drop a `Secure` cookie from a page that was loaded over http.
 * @throws ConflictError
 */
export function requireKeptCookie(
  request: Pick<IncomingMessage, 'headers'>,
  publicUrl: Pick<PublicUrl, 'basePath' | 'origin'>,
): void {
  if (request.headers.origin?.startsWith('http:') && isSecure(request, publicUrl))
    throw new ConflictError(
      `The browser would not stay signed in at this address. Open the link at ${publicUrl.origin ?? 'the https address of this server'} instead.`,
    )
}

/** The browser of a request, for a new session. */
export const browserOf = ({ headers }: Pick<IncomingMessage, 'headers'>) => ({
  userAgent: headers['user-agent'],
  replaced: sessionCookiesOf(headers),
})

/** Sets or deletes the session cookie of a browser. The caller has checked the Origin of the request. */
export function setSessionCookie(
  request: Pick<IncomingMessage, 'headers'>,
  response: Pick<ServerResponse, 'appendHeader'>,
  cookie: SessionCookie | null,
  publicUrl: Pick<PublicUrl, 'basePath' | 'origin'>,
): void {
  const { basePath } = publicUrl
  const maxAge = cookie === null ? 0 : cookie.maxAgeSeconds
  const attributes = [
    `${NAME}=${cookie?.secret ?? ''}`,
    `Path=${basePath === '' ? '/' : basePath}`,
    ...(maxAge === null ? [] : [`Max-Age=${maxAge}`]),
    'HttpOnly',
    'SameSite=Lax',
    ...(isSecure(request, publicUrl) ? ['Secure'] : []),
  ]
  response.appendHeader('set-cookie', attributes.join('; '))
}
