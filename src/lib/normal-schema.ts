import traverse from 'json-schema-traverse'
import { isObject, type Json, type JsonObject } from './json.ts'

/**
 * Converts a schema to a form that model providers and validators accept, with the same meaning as far as possible. The
 * top level is an object without combinations. There are no ids, numeric bounds are as in later drafts, and patterns
 * are JavaScript's. A constraint that only the tool's own server can check, such as a pattern in another dialect, can
 * get lost. The description then mentions it.
 */
export function normalSchema(schema: JsonObject): JsonObject {
  const local = withLocalRefs(schema)
  traverse(local, { allKeys: true }, (part) => {
    numericBounds(part)
    knownPattern(part)
  })
  return withoutCombinations(local)
}

/**
 * Returns a copy whose references by id are replaced with JSON pointers into the schema. References to other documents
 * are kept.
 */
export function withLocalRefs(schema: JsonObject): JsonObject {
  const copy = structuredClone(schema)
  const pointers = new Map<string, string>()
  traverse(copy, { allKeys: true }, (part, pointer) => {
    for (const name of ['$id', 'id']) {
      const id = part[name]
      if (typeof id === 'string' && !id.startsWith('#')) pointers.set(id.replace(/#$/, ''), pointer)
    }
  })
  if (pointers.size === 0) return copy
  traverse(copy, { allKeys: true }, (part) => {
    if (typeof part.$ref !== 'string') return
    const [id = '', fragment = ''] = part.$ref.split('#', 2)
    const pointer = pointers.get(id)
    if (pointer !== undefined) part.$ref = `#${pointer}${fragment}`
  })
  return copy
}

/** Converts the bounds of draft 4, such as `exclusiveMinimum: true` next to `minimum`. */
function numericBounds(part: Record<string, unknown>): void {
  for (const [exclusive, bound] of [
    ['exclusiveMinimum', 'minimum'],
    ['exclusiveMaximum', 'maximum'],
  ] as const) {
    if (typeof part[exclusive] !== 'boolean') continue
    if (part[exclusive] === true && typeof part[bound] === 'number') {
      part[exclusive] = part[bound]
      delete part[bound]
    } else delete part[exclusive]
  }
}

/**
 * Moves a pattern that JavaScript does not support, such as `(?i)…`, to the description. The tool's server checks this
 * pattern.
 */
function knownPattern(part: Record<string, unknown>): void {
  const { pattern, description } = part
  if (typeof pattern !== 'string' || isPattern(pattern)) return
  delete part.pattern
  part.description = [description, `Must match ${pattern}`].filter((text) => typeof text === 'string').join(' ')
}

function isPattern(pattern: string): boolean {
  try {
    new RegExp(pattern, 'u')
    return true
  } catch {
    return false
  }
}

/** The maximum depth of nested combinations. They can refer to themselves. */
const MOST_NESTED = 10

const COMBINATIONS = ['allOf', 'anyOf', 'oneOf'] as const

/**
 * Merges combinations at the top level, which model providers reject, into one object. With `allOf`, a property is
 * required if any part requires it. With `anyOf` and `oneOf`, a property is required if all parts require it.
 */
function withoutCombinations(schema: JsonObject, root = schema, depth = 0): JsonObject {
  const parts = COMBINATIONS.flatMap((name) => partsOf(schema, name).map((part) => ({ name, part })))
  if (parts.length === 0 || depth > MOST_NESTED) return schema
  const { allOf: _, anyOf: __, oneOf: ___, ...rest } = schema
  const merged = parts.map(({ part }) => withoutCombinations(resolved(part, root), root, depth + 1))
  const properties = Object.assign({}, ...merged.map((part) => objectIn(part.properties)), objectIn(rest.properties))
  const required = [
    ...listIn(rest.required),
    ...parts.flatMap(({ name }, index) => (name === 'allOf' ? listIn(merged[index]?.required) : [])),
    ...(['anyOf', 'oneOf'] as const).flatMap((name) =>
      inAll(merged.filter((_part, index) => parts[index]?.name === name).map((part) => listIn(part.required))),
    ),
  ]
  return { ...rest, type: 'object', properties, ...(required.length === 0 ? {} : { required: [...new Set(required)] }) }
}

function partsOf(schema: JsonObject, name: (typeof COMBINATIONS)[number]): JsonObject[] {
  const given = schema[name]
  return Array.isArray(given) ? given.filter(isObject) : []
}

/**
 * Follows a reference within the schema. A reference to nothing or to another reference is kept, so that the later
 * check reports it.
 */
function resolved(part: JsonObject, root: JsonObject): JsonObject {
  const { $ref } = part
  if (typeof $ref !== 'string' || !$ref.startsWith('#/')) return part
  const names = $ref
    .slice(2)
    .split('/')
    .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'))
  const target = names.reduce<Json | undefined>((value, name) => (isObject(value) ? value[name] : undefined), root)
  return isObject(target) && target['$ref'] === undefined ? target : {}
}

const inAll = (lists: string[][]): string[] =>
  (lists[0] ?? []).filter((name) => lists.every((list) => list.includes(name)))

const objectIn = (value: Json | undefined): JsonObject => (isObject(value) ? value : {})

const listIn = (value: Json | undefined): string[] =>
  Array.isArray(value) ? value.filter((name) => typeof name === 'string') : []
