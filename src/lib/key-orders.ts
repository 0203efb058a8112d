import { type Json, jsonbText } from './json.ts'

// PostgreSQL's jsonb has an order of keys of its own. What a model was shown, it is shown again letter by letter, or its provider's
// cache of the prompt ends there: so beside such a value the orders are kept that jsonb loses.

/**
 * What is to be kept beside a value, as a jsonb parameter of raw SQL: for each set of keys that stands in an order which is not
 * jsonb's, that order; null where there is none. Of objects that have the same keys in different orders it tells one of them.
 */
export function keyOrdersText(value: unknown): string | null {
  const orders = new Map<string, string[]>()
  const pending: unknown[] = [value]
  while (pending.length > 0) {
    const next = pending.pop()
    if (typeof next !== 'object' || next === null) continue
    for (const inner of Object.values(next)) pending.push(inner)
    if (Array.isArray(next)) continue
    const keys = Object.keys(next).filter((key) => (next as Record<string, unknown>)[key] !== undefined)
    if (keys.length > 1) orders.set(nameOf(keys), keys)
  }
  const lost = [...orders.values()].filter((keys) => nameOf(keys) !== nameOf(asRead(keys)))
  return lost.length === 0 ? null : jsonbText(lost)
}

/** A value that was read from jsonb as it was before, by what was kept beside it. */
export function inKeyOrder<T extends Json>(value: T, orders: unknown): T {
  if (!Array.isArray(orders)) return value
  const known = new Map((orders as string[][]).map((keys) => [nameOf(asRead(keys)), keys]))
  function restored(part: Json): Json {
    if (Array.isArray(part)) return part.map(restored)
    if (typeof part !== 'object' || part === null) return part
    const keys = Object.keys(part)
    const order = keys.length > 1 ? (known.get(nameOf(keys)) ?? keys) : keys
    return Object.fromEntries(order.map((key) => [key, restored(part[key] as Json)]))
  }
  return restored(value) as T
}

const nameOf = (keys: readonly string[]): string => JSON.stringify(keys)

/** The keys as they come back: jsonb puts shorter ones first, and sorts by their bytes in UTF-8; JavaScript puts numbers before all. */
function asRead(keys: readonly string[]): string[] {
  // A byte a character: their order is that of the bytes.
  const stored = keys.map((key) => ({ key, bytes: Buffer.from(key).toString('latin1') }))
  stored.sort(({ bytes: a }, { bytes: b }) => a.length - b.length || (a < b ? -1 : 1))
  return Object.keys(Object.fromEntries(stored.map(({ key }) => [key, true])))
}
