import type { Json } from '../../lib/json.ts'

/**
 * Returns a function that removes header values from a text, so that the model does not see them if the server echoes
 * them.
 */
export function withoutValues(headers: Record<string, string>): (text: string) => string {
  const secrets = Object.values(headers).filter(({ length }) => length >= SHORTEST_SECRET)
  return (text) => secrets.reduce((cleaned, secret) => cleaned.replaceAll(secret, '[removed]'), text)
}

/**
 * Returns a function that drops the end of an unfinished text if the end is the beginning of a header value. The
 * rest of the value may follow.
 */
export function withoutBeginnings(headers: Record<string, string>): (text: string) => string {
  const secrets = Object.values(headers).filter(({ length }) => length >= SHORTEST_SECRET)
  return (text) => {
    const begun = secrets.map((secret) => {
      let length = Math.min(secret.length - 1, text.length)
      while (length > 0 && !text.endsWith(secret.slice(0, length))) length -= 1
      return length
    })
    return text.slice(0, text.length - Math.max(0, ...begun))
  }
}

/** Applies a change to every string in a JSON value, including the names of fields. */
export function withTexts(value: Json, change: (text: string) => string): Json {
  if (typeof value === 'string') return change(value)
  if (Array.isArray(value)) return value.map((one) => withTexts(one, change))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [change(key), withTexts(one, change)]))
}

/** The minimum length of a header value that is removed. Shorter values could match ordinary words. */
const SHORTEST_SECRET = 6
