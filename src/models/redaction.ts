/**
 * What providers echo of keys: `sk-…` and its like, keys cut short by stars, bearer tokens, keys in query strings, and any long
 * word of letters and digits (of one that names a request, or a UUID, nobody can make use).
 */
const KEY_LIKE =
  /\b(sk|pk|rk|key)-[\w*.-]{4,}|\bAIza[\w-]{10,}|(?<![\w*-])[\w-]*\*{3,}[\w*-]*|Bearer\s+[\w.~+/=-]+|(?<![\w-])(?!req_|[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\b)(?=[\w-]*\d)(?=[\w-]*[a-z])[\w-]{32,}|(?<=[?&](?:api[-_]?key|key|token)=)[^&\s]+/gi

/** Shorter ones would take words out of a text that are none. */
const SHORTEST_SECRET = 6

/** What takes these secrets, and what looks like one, out of a text. */
export function createRedaction(secrets: readonly string[]): (text: string) => string {
  const known = secrets.filter(({ length }) => length >= SHORTEST_SECRET).toSorted((a, b) => b.length - a.length)
  return (text) =>
    known.reduce((cleaned, secret) => cleaned.replaceAll(secret, '[removed]'), text).replace(KEY_LIKE, '[removed]')
}
