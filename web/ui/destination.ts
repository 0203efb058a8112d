/** The target of a link. */
export interface Destination {
  /** The complete URL. */
  href: string
  /** Where a link that leaves this server leads: the host, or the email address. Null for a link within the server. */
  elsewhere: string | null
}

const PROTOCOLS = ['http:', 'https:', 'mailto:']

/**
 * Resolves an address as a browser would, in each spelling: `HTTPS://…`, `//host`, `/\host`, `https:host`.
 * @returns null for an invalid address or a scheme that is not allowed: `javascript:`, `data:`, `file:`
 */
export function destinationOf(address: string, page: string): Destination | null {
  const url = URL.parse(address, page)
  if (url === null || !PROTOCOLS.includes(url.protocol)) return null
  if (url.protocol === 'mailto:') return { href: url.href, elsewhere: url.pathname }
  // In `https://parley.example@evil.example`, the user information before the host only serves to deceive.
  url.username = ''
  url.password = ''
  return { href: url.href, elsewhere: url.origin === new URL(page).origin ? null : url.host }
}
