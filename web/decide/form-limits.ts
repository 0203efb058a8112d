type Schema = Record<string, unknown>

const MOST = {
  /** Fields of the form and schemas that it looks at. */
  steps: 400,
  depth: 12,
  options: 500,
  /** Values that stand in it at first. */
  values: 1000,
  valueDepth: 16,
}
/** What a form cannot show within limits, or what its check could take any time for. */
const UNFIT = ['$dynamicRef', '$recursiveRef', 'patternProperties']
const SINGLE = ['additionalProperties', 'not', 'if', 'then', 'else', 'contains', 'propertyNames']
const LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems']
const MAPS = ['properties', 'dependentSchemas', 'dependencies']

/** Whether a form of this schema, with this value in it, has a size that a page can show: references are followed as the form does. */
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
    // Of an item that may be added: once, since a tree refers to itself by its items.
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

/** The schemas that a form of `schema` shows or checks, each with the value that it stands for. */
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

/** A list shows the items that it has: a schema that refers to itself by its items ends with them. */
function itemsOf({ items, minItems, ...schema }: Schema, data: unknown): Part[] {
  const count = Math.max(lengthOf(data), lengthOf(schema['default']), Number(minItems ?? 0) || 0)
  return Array.from({ length: Math.min(count, MOST.steps + 1) }, (_, at) => [
    Array.isArray(items) ? items[at] : items,
    Array.isArray(data) ? data[at] : undefined,
  ])
}

/** What a local reference names; one that names nothing is left to the form. */
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

/** A schema without its regular expressions: one of them may take any time, and the server checks them. */
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
