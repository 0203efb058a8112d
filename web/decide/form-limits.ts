type Schema = Record<string, unknown>

const MOST = {
  /** The number of schemas that the form visits. */
  steps: 400,
  depth: 12,
  options: 500,
  /** The number of initial values. */
  values: 1000,
  valueDepth: 16,
}
/** Keywords that a form cannot show within the limits, or that can take unbounded time to validate. */
const UNFIT = ['$dynamicRef', '$recursiveRef', 'patternProperties']
const SINGLE = ['additionalProperties', 'not', 'if', 'then', 'else', 'contains', 'propertyNames']
const LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems']
const MAPS = ['properties', 'dependentSchemas', 'dependencies']

/** Returns whether a form for this schema and value is small enough for a page. Follows references as the form does. */
export function fitsForm(schema: Schema, value: unknown): boolean {
  return isSmallValue(value) && isSmallSchema(schema, value)
}

function isSmallValue(value: unknown): boolean {
  let count = 0
  const waiting: [unknown, number][] = [[value, 0]]
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [item, depth] = next
    count += 1
    if (count > MOST.values || depth > MOST.valueDepth) return false
    if (!isObject(item)) continue
    const parts = Object.values(item)
    if (parts.length > MOST.values) return false
    for (const part of parts) waiting.push([part, depth + 1])
  }
  return true
}

function isSmallSchema(root: Schema, value: unknown): boolean {
  let steps = 0
  const seen = new Set<unknown>()

  function fits(schema: unknown, data: unknown, depth: number): boolean {
    if (schema === undefined) return true
    steps += 1
    if (steps > MOST.steps || depth > MOST.depth) return false
    if (!isObject(schema)) return true
    if (!hasSmallKeywords(schema)) return false
    if ('$ref' in schema && !fits(target(root, schema['$ref']), data, depth + 1)) return false
    if (!partsOf(schema, data).every(([part, within]) => fits(part, within, depth + 1))) return false
    // The schema of items is visited only once, because a recursive schema refers to itself through its items.
    const { items } = schema
    if (!isObject(items) || seen.has(items)) return true
    seen.add(items)
    return fits(items, undefined, depth + 1)
  }

  return fits(root, value, 0)
}

const hasSmallKeywords = (schema: Schema) =>
  !UNFIT.some((keyword) => keyword in schema) &&
  lengthOf(schema['enum']) <= MOST.options &&
  isSmallValue(schema['default']) &&
  isSmallValue(schema['const'])

type Part = [schema: unknown, value: unknown]

/** Returns the schemas that a form of `graphql` shows or checks, each with its value. */
function partsOf(schema: Schema, data: unknown): Part[] {
  const lists = LISTS.map((keyword) => schema[keyword]).filter(Array.isArray)
  const maps = MAPS.map((keyword) => schema[keyword]).filter(isObject)
  return [
    ...SINGLE.map((keyword): Part => [schema[keyword], undefined]),
    ...lists.flat().map((part): Part => [part, data]),
    ...maps.flatMap(Object.entries).map(([name, part]): Part => [part, isObject(data) ? data[name] : undefined]),
    ...itemsOf(schema, data),
  ]
}

/** A form shows only existing items, so a recursive schema ends with them. */
function itemsOf({ items, minItems, ...schema }: Schema, data: unknown): Part[] {
  const count = Math.max(lengthOf(data), lengthOf(schema['default']), Number(minItems ?? 0) || 0)
  return Array.from({ length: Math.min(count, MOST.steps + 1) }, (_, at) => [
    Array.isArray(items) ? items[at] : items,
    Array.isArray(data) ? data[at] : undefined,
  ])
}

/** Resolves a local reference. The form handles references that cannot be resolved. */
function target(root: Schema, reference: unknown): unknown {
  const steps = String(reference).replace(/^#\/?/, '').split('/').filter(Boolean)
  let place: unknown = root
  for (const step of steps.slice(0, MOST.steps)) {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~')
    place = isObject(place) && Object.hasOwn(place, name) ? place[name] : undefined
  }
  return place
}

const DATA = ['const', 'enum', 'default', 'examples']

/** Returns a schema without regular expressions, which can take unbounded time. The server checks them. */
export function withoutPatterns<Value>(schema: Value): Value {
  if (Array.isArray(schema)) return schema.map(withoutPatterns) as Value
  if (!isObject(schema)) return schema
  const kept = Object.entries(schema).filter(([name, part]) => name !== 'pattern' || typeof part !== 'string')
  return Object.fromEntries(
    kept.map(([name, part]) => [name, DATA.includes(name) ? part : withoutPatterns(part)]),
  ) as Value
}

const lengthOf = (list: unknown) => (Array.isArray(list) ? list.length : 0)
const isObject = (value: unknown): value is Schema => typeof value === 'object' && value !== null
