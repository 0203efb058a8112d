import type { IncomingMessage } from 'node:http'

type Headers = IncomingMessage['headers']

/**
 * Returns the origin to which a client sent a request, from the client's point of view. The host comes from the
 * request or from the proxy's forwarding headers. The scheme comes from the requesting page or from the proxy's
 * headers. Returns null if there is no host.
 */
export function askedOriginOf(headers: Headers): string | null {
  if (isOwnOrigin(headers)) return headers.origin ?? null
  const [host] = hostsOf(headers)
  if (host === undefined) return null
  const forwarded = firstOf(headers['x-forwarded-proto'])
  const scheme = forwarded === 'https' || forwarded === 'http' ? forwarded : host.endsWith(':443') ? 'https' : 'http'
  return URL.parse(`${scheme}://${host}`)?.origin ?? null
}

/**
 * Returns the origin at which the client reached a proxy. Uses the browser's Origin header or, without one, the
 * proxy's headers, and takes missing parts from `expected`. Returns null for a request without a proxy.
 */
export function forwardedOriginOf(headers: Headers, expected: string): string | null {
  const [proto, host] = [firstOf(headers['x-forwarded-proto']), firstOf(headers['x-forwarded-host'])]
  if (!proto && !host) return null
  if (headers['sec-fetch-site'] === 'same-origin' && headers.origin) return headers.origin
  const own = new URL(expected)
  const scheme = proto === 'https' || proto === 'http' ? proto : own.protocol.slice(0, -1)
  return URL.parse(`${scheme}://${host || own.host}`)?.origin ?? null
}

/** Whether the host of a page's origin is the host of the request. An explicit default port makes no difference. */
export function isOwnOrigin(headers: Headers): boolean {
  const origin = URL.parse(headers.origin ?? '')
  if (origin === null) return false
  return hostsOf(headers).some((host) => URL.parse(`${origin.protocol}//${host}`)?.host === origin.host)
}

/**
 * Returns the host of the request and the host that a proxy forwards. A page of another origin cannot forge them,
 * because browsers send these headers across origins only after a preflight.
 */
const hostsOf = (headers: Headers): string[] =>
  [firstOf(headers['x-forwarded-host']), headers.host].filter((host) => host !== undefined && host !== '') as string[]

const firstOf = (header: string | string[] | undefined): string | undefined =>
  String(header ?? '')
    .split(',')[0]
    ?.trim()
