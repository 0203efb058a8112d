import type { IncomingMessage } from 'node:http'

/** A base for parsing relative URLs. Its value does not matter, because only the path and query are used. */
const BASE = 'http://localhost'

/**
 * Rewrites a request to the form that the handlers expect. If the target is an absolute URL (RFC 9112, 3.2.2), the
 * URL's path becomes the target, and the URL's host becomes the host of the request. Removes the prefix of
 * PARLEY_PUBLIC_URL, which proxies may keep or remove, and a slash at the end of the path.
 */
export function rewriteTarget(request: IncomingMessage, basePath: string): void {
  const absolute = /^https?:\/\//i.test(request.url ?? '') ? URL.parse(request.url ?? '') : null
  if (absolute !== null) {
    request.url = absolute.pathname + absolute.search
    request.headers.host = absolute.host
  }
  const [path = '/', ...query] = (request.url ?? '/').split('?')
  const inner = withoutSlash(withoutPrefix(path, basePath))
  request.url = [inner, ...query].join('?')
}

/** Returns the path of a request, without its query. */
export const pathOf = ({ url = '/' }: IncomingMessage): string => url.split('?')[0] ?? '/'

/** Returns the query of a request. */
export const parametersOf = ({ url }: IncomingMessage): URLSearchParams => new URL(url ?? '', BASE).searchParams

/** The maximum number of path segments in a prefix, because a path with many slashes would be expensive to check. */
const MOST_PREFIX_PARTS = 4

/** Returns the prefix that a proxy may have added before a path that the server serves; null if there is none. */
export function addedPrefixOf(path: string, isServed: (path: string) => boolean): string | null {
  const parts = path.split('/', MOST_PREFIX_PARTS + 2).slice(1)
  if (parts.length === 1) return isPrefix(path) ? path : null
  for (let count = 1; count < parts.length; count++) {
    const prefix = `/${parts.slice(0, count).join('/')}`
    if (isServed(path.slice(prefix.length))) return isPrefix(prefix) ? prefix : null
  }
  return null
}

const isPrefix = (text: string) => /^(\/[\w.~-]{1,64})+$/.test(text)

function withoutPrefix(path: string, basePath: string): string {
  if (path === basePath) return '/'
  return basePath !== '' && path.startsWith(`${basePath}/`) ? path.slice(basePath.length) : path
}

const withoutSlash = (path: string) => (path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path)
