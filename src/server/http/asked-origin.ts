import type { IncomingMessage } from 'node:http'

type Headers = IncomingMessage['headers']

/**
 * Returns the origin to which a client sent a request, as the client sees it: the host of the request or the one
 * that a proxy forwards, with the scheme of the requesting page or the one that a proxy forwards. Null without a host.
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
 * Returns the origin at which a proxy was reached, as reported by the browser's page, or else by the proxy; missing parts
 * come from `expected`. Null for a request without a proxy.
 */
export function forwardedOriginOf(headers: Headers, expected: string): string | null {
  const [proto, host] = [firstOf(headers['x-forwarded-proto']), firstOf(headers['x-forwarded-host'])]
  if (!proto && !host) return null
  if (headers['sec-fetch-site'] === 'same-origin' && headers.origin) return headers.origin
  const own = new URL(expected)
  const scheme = proto === 'https' || proto === 'http' ? proto : own.protocol.slice(0, -1)
  return URL.parse(`${scheme}://${host || own.host}`)?.origin ?? null
}

/** Whether a page's origin is the host of the request, whether or not that names the default port of the scheme. */
export function isOwnOrigin(headers: Headers): boolean {
  const origin = URL.parse(headers.origin ?? '')
  if (origin === null) return false
  return hostsOf(headers).some((host) => URL.parse(`${origin.protocol}//${host}`)?.host === origin.host)
}

/**
 * The host that a proxy forwards, and that of the request itself. A page of another origin can forge neither, because a
 * browser sends no such header without a preflight.
 */
const hostsOf = (headers: Headers): string[] =>
  [firstOf(headers['x-forwarded-host']), headers.host].filter((host) => host !== undefined && host !== '') as string[]

const firstOf = (header: string | string[] | undefined): string | undefined =>
  String(header ?? '')
    .split(',')[0]
    ?.trim()
