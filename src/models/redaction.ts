/**
 * Matches keys that providers repeat in errors: `sk-…` and similar keys, keys masked with asterisks, bearer tokens,
 * keys in query strings, and any long word of letters and digits. So request ids and UUIDs also match.
 */
const KEY_LIKE =
  /\b(sk|pk|rk|key)-[\w*.-]{4,}|\bAIza[\w-]{10,}|(?<![\w*-])[\w-]*\*{3,}[\w*-]*|Bearer\s+[\w.~+/=-]+|(?<![\w-])(?!req_|[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\b)(?=[\w-]*\d)(?=[\w-]*[a-z])[\w-]{32,}|(?<=[?&](?:api[-_]?key|key|token)=)[^&\s]+/gi

/** The minimum length of a secret to redact. Shorter secrets could match ordinary words. */
const SHORTEST_SECRET = 6

/** Returns a function that removes these secrets, and anything that looks like a secret, from a text. */
export function createRedaction(secrets: readonly string[]): (text: string) => string {
  const known = secrets.filter(({ length }) => length >= SHORTEST_SECRET).toSorted((a, b) => b.length - a.length)
  return (text) =>
    known.reduce((cleaned, secret) => cleaned.replaceAll(secret, '[removed]'), text).replace(KEY_LIKE, '[removed]')
}
