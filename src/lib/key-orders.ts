import { type Json, jsonbText } from './json.ts'

// PostgreSQL's jsonb does not preserve the order of keys. A prompt must be repeated exactly, or the provider's
// prompt cache misses, so the lost orders are stored next to such a value.

/**
 * Returns the orders to store next to a value, as a jsonb parameter of raw SQL: one for each set of keys whose order is
 * not jsonb's; null if there is none. If objects with the same keys have different orders, only one is stored.
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

/** Restores the order of keys of a value read from jsonb. */
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

/**
 * Returns the order of keys after reading: jsonb sorts by length, then by UTF-8 bytes; JavaScript moves integer keys to
 * the front.
 */
function asRead(keys: readonly string[]): string[] {
  // One byte per character, so that strings compare in the order of their bytes.
  const stored = keys.map((key) => ({ key, bytes: Buffer.from(key).toString('latin1') }))
  stored.sort(({ bytes: a }, { bytes: b }) => a.length - b.length || (a < b ? -1 : 1))
  return Object.keys(Object.fromEntries(stored.map(({ key }) => [key, true])))
}
