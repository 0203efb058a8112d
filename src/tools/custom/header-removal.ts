import type { Json } from '../../lib/json.ts'

/** Returns a function that removes header values, in case the server echoes them, so that the model does not see them. */
export function withoutValues(headers: Record<string, string>): (text: string) => string {
  const secrets = Object.values(headers).filter(({ length }) => length >= SHORTEST_SECRET)
  return (text) => secrets.reduce((cleaned, secret) => cleaned.replaceAll(secret, '[removed]'), text)
}

/** Changes every text in a JSON value. */
export function withTexts(value: Json, change: (text: string) => string): Json {
  if (typeof value === 'string') return change(value)
  if (Array.isArray(value)) return value.map((one) => withTexts(one, change))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [change(key), withTexts(one, change)]))
}

/** Shorter values could match ordinary words. */
const SHORTEST_SECRET = 6
