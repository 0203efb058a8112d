import { type Json, jsonbText } from './json.ts'

// PostgreSQL's jsonb does not preserve the order of keys. If a prompt is not repeated exactly, the provider's prompt
// cache misses. So the original orders of keys are stored next to a value that becomes part of a prompt.

/**
 * Returns the orders of keys to store next to a value, as a jsonb parameter of raw SQL. There is one order for each set
 * of keys that jsonb would order differently; null if there is none. If objects have the same keys in different orders,
 * only one of these orders is stored.
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
 * Returns the keys in the order in which they are read back. jsonb sorts keys by length and then by UTF-8 bytes, and
 * JavaScript moves integer keys to the front.
 */
function asRead(keys: readonly string[]): string[] {
  // Represents each byte as one character, so that comparing strings compares their bytes.
  const stored = keys.map((key) => ({ key, bytes: Buffer.from(key).toString('latin1') }))
  stored.sort(({ bytes: a }, { bytes: b }) => a.length - b.length || (a < b ? -1 : 1))
  return Object.keys(Object.fromEntries(stored.map(({ key }) => [key, true])))
}
