/** What providers echo of keys: `sk-…` and its like, keys cut short by stars, bearer tokens, and keys in query strings. */
const KEY_LIKE =
  /\b(sk|pk|rk|key)-[\w*.-]{4,}|\bAIza[\w-]{10,}|(?<![\w*-])[\w-]*\*{3,}[\w*-]*|Bearer\s+[\w.~+/=-]+|(?<=[?&](?:api[-_]?key|key|token)=)[^&\s]+/gi

/** Shorter ones would take words out of a text that are none. */
const SHORTEST_SECRET = 6

/** What takes these secrets, and what looks like one, out of a text. */
export function createRedaction(secrets: readonly string[]): (text: string) => string {
  const known = secrets.filter(({ length }) => length >= SHORTEST_SECRET).toSorted((a, b) => b.length - a.length)
  return (text) =>
    known.reduce((cleaned, secret) => cleaned.replaceAll(secret, '[removed]'), text).replace(KEY_LIKE, '[removed]')
}
