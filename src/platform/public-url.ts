import type { Config } from '../config.ts'
import { isLoopback } from '../lib/loopback.ts'

/** The addresses at which people and services reach this server. All absolute links to the server are built here. */
export interface PublicUrl {
  /** The path prefix of PARLEY_PUBLIC_URL, without a trailing slash; '' if there is none. */
  readonly basePath: string
  /** The scheme and host of PARLEY_PUBLIC_URL; null if it is not set. */
  readonly origin: string | null
  /**
   * Returns the link to a path. Without PARLEY_PUBLIC_URL, the link begins with `asked`, the origin to which the
   * current request was sent. Without a request, it begins with the address on which this server listens.
   */
  to(path: string, asked?: string | null): string
  /**
   * Returns the link to a path for an email or a notice, where no request shows the server's URL. Returns null without
   * PARLEY_PUBLIC_URL, unless the server listens only on a loopback address.
   */
  forReader(path: string): string | null
  /** Sets the address on which this server listens. */
  listensAt(origin: string): void
}

export function createPublicUrl({
  publicUrl,
  host,
  port,
  role,
}: Pick<Config, 'publicUrl' | 'host' | 'port' | 'role'>): PublicUrl {
  const named = publicUrl === null ? null : new URL(publicUrl)
  let own = `http://${host}:${port}`
  return {
    basePath: named === null ? '' : named.pathname.replace(/\/$/, ''),
    origin: named?.origin ?? null,
    to: (path, asked) => `${publicUrl ?? asked ?? own}${path}`,
    forReader(path) {
      if (publicUrl !== null) return publicUrl + path
      // A worker does not serve the pages that the links open.
      return role !== 'worker' && isLoopback(host) ? own + path : null
    },
    listensAt(origin) {
      own = origin
    },
  }
}
