/** Returns `order_supplies` as “Order supplies”. */
export function wordsOfName(name: string): string {
  const words = name.replaceAll(/[_-]+/g, ' ').trim()
  return words === '' ? name : words.charAt(0).toUpperCase() + words.slice(1)
}

/** Returns the title that a JSON Schema gives a property; if there is none, the property's name in words. */
export function titleOf(name: string, schema: unknown): string {
  const { properties } = (schema ?? {}) as { properties?: Record<string, { title?: unknown } | boolean> }
  const property = properties && Object.hasOwn(properties, name) ? properties[name] : undefined
  const title = typeof property === 'object' ? property.title : undefined
  return typeof title === 'string' && title.trim() !== '' ? title : wordsOfName(name)
}

const AMOUNT = /price|cost|amount|total|euro|eur\b|dollar|usd\b/i

/** Returns a short value as people write it: `23.80` for an amount of money by its title, and `yes` for `true`. */
export function wordsOfValue(value: unknown, title: string): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  const isAmount = typeof value === 'number' && AMOUNT.test(title) && /^-?\d+\.\d{1,2}$/.test(String(value))
  return isAmount ? value.toFixed(2) : String(value)
}

/** Describes an input in one line: `Item: Fleece, Rolls: 3`. Null if it is not an object of short values. */
export function inputInWords(input: unknown, schema: unknown): string | null {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return null
  const entries = entriesInOrder(input, schema)
  if (entries.length === 0 || entries.some(([, value]) => typeof value === 'object')) return null
  return entries
    .map(([name, value]) => `${titleOf(name, schema)}: ${wordsOfValue(value, titleOf(name, schema))}`)
    .join(', ')
}

/** Returns the entries of a value, required properties first: the database does not keep the order of properties. */
export function entriesInOrder(value: object, schema: unknown): [string, unknown][] {
  const { required } = (schema ?? {}) as { required?: unknown }
  const order: unknown[] = Array.isArray(required) ? required : []
  const placeOf = (name: string) => (order.includes(name) ? order.indexOf(name) : order.length)
  return Object.entries(value).toSorted(([one], [other]) => placeOf(one) - placeOf(other))
}
