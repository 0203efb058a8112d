import { ParleyError } from './errors.ts'

const PATH = '/graphql'
const SCHEMES: Record<string, string> = { 'http:': 'http:', 'https:': 'https:', 'ws:': 'http:', 'wss:': 'https:' }

/**
 * Returns the URL for requests. `url` is the server's URL, with or without a path prefix and `/graphql`; in a page it
 * may be relative, and defaults to the page's origin.
 * @throws ParleyError if the url is missing or cannot be used
 */
export function endpointOf(url: string | undefined): string {
  const page = typeof location === 'undefined' ? undefined : location
  const given = url ?? page?.origin
  if (given === undefined || given.trim() === '')
    throw new ParleyError('The url is missing. Call createConnection({ url, token }).', 'BAD_INPUT')
  const isRelative = page !== undefined && /^[/.]/.test(given)
  if (!isRelative && !/^\s*[a-z][a-z\d+.-]*:\/\//i.test(given))
    throw refused(given, 'Put http:// or https:// before it.')
  const { protocol, host, pathname, ...rest } = parsed(given, isRelative ? page.href : undefined)
  const scheme = SCHEMES[protocol]
  if (scheme === undefined) throw refused(given, 'The address must begin with https:// or http://.')
  if (rest.username || rest.password || rest.search || rest.hash)
    throw refused(given, 'The address must not contain a user, a password, a query or a fragment.')
  const path = pathname.replace(/\/+$/, '')
  return `${scheme}//${host}${path.endsWith(PATH) ? path : path + PATH}`
}

/** Parses a URL. Copies its properties, because those of a URL object are getters. */
function parsed(url: string, base: string | undefined) {
  try {
    const { protocol, host, pathname, username, password, search, hash } = new URL(url, base)
    return { protocol, host, pathname, username, password, search, hash }
  } catch {
    throw refused(url, 'The address is not valid.')
  }
}

const refused = (url: string, reason: string) =>
  new ParleyError(`The url "${url}" cannot be used. ${reason}`, 'BAD_INPUT')
