const LONGEST_PATH = 1000
/** A base URL for parsing paths. If the parsed URL has another origin, the path belongs to another server. */
const BASE = 'http://own.invalid'

/**
 * Returns the path on this server, with query and fragment, to which a browser is redirected after signing in. Returns
 * `/` instead of a path that could redirect to another server (`//evil.example`, `/\evil.example`) or start another
 * sign-in.
 */
export function ownPathOf(given: string | null): string {
  if (given === null || given.length > LONGEST_PATH || !/^\/(?![/\\])[^\p{Cc}]*$/u.test(given)) return '/'
  const url = URL.parse(given, BASE)
  // The check uses the parsed path, because `..` can resolve to `//evil.example`.
  if (url === null || url.origin !== BASE || /^\/[/\\]/.test(url.pathname) || /^\/auth(\/|$)/.test(url.pathname))
    return '/'
  return url.pathname + url.search + url.hash
}
