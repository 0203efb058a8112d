/** Where a link leads. */
export interface Destination {
  /** The whole address. */
  href: string
  /** What to show of an address that leads away from this server: its host, or the address of mail; null where it stays. */
  elsewhere: string | null
}

const PROTOCOLS = ['http:', 'https:', 'mailto:']

/**
 * Resolves an address as a browser would, in each of its spellings: `HTTPS://…`, `//host`, `/\host`, `https:host`.
 * @returns null for what is no address, or one of a scheme that is not followed: `javascript:`, `data:`, `file:`.
 */
export function destinationOf(address: string, page: string): Destination | null {
  const url = URL.parse(address, page)
  if (url === null || !PROTOCOLS.includes(url.protocol)) return null
  if (url.protocol === 'mailto:') return { href: url.href, elsewhere: url.pathname }
  // `https://parley.example@evil.example`: a name before the host serves only to deceive.
  url.username = ''
  url.password = ''
  return { href: url.href, elsewhere: url.origin === new URL(page).origin ? null : url.host }
}
