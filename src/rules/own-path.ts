const LONGEST_PATH = 1000
/** Any base works: it reveals a path that leads to another origin. */
const BASE = 'http://own.invalid'

/**
 * Returns the path on this server to which a browser is redirected after sign-in, with query and fragment: the given path, or
 * `/` for any path that could lead to another server (`//evil.example`, `/\evil.example`) or start another sign-in.
 */
export function ownPathOf(given: string | null): string {
  if (given === null || given.length > LONGEST_PATH || !/^\/(?![/\\])[^\p{Cc}]*$/u.test(given)) return '/'
  const url = URL.parse(given, BASE)
  // The parser resolves `..`, which could leave `//evil.example`.
  if (url === null || url.origin !== BASE || /^\/[/\\]/.test(url.pathname) || /^\/auth(\/|$)/.test(url.pathname))
    return '/'
  return url.pathname + url.search + url.hash
}
