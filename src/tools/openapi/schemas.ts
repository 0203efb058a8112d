import { isObject, type Json, type JsonObject } from '../../lib/json.ts'
import { percentDecoded } from '../../lib/percent-encoding.ts'

/** An operation cannot become a tool. The message is a sentence that gives the reason. */
export class OperationProblem extends Error {}

/** The maximum number of JSON values in one schema. The schemas that it refers to are included. */
const MOST_VALUES = 5_000
/**
 * The maximum number of JSON values in all schemas of a document. Each value takes time, and references can
 * multiply the number of values.
 */
const MOST_VALUES_IN_ALL = 1_500_000
const DEEPEST = 100

/** OpenAPI keywords that are not part of JSON Schema and that mean nothing to a model. */
const NOT_SCHEMA = new Set(['discriminator', 'xml', 'externalDocs', 'example', 'deprecated', 'nullable', 'writeOnly'])

/** Reads parts of an OpenAPI document, and resolves their references. */
export interface SchemaReader {
  /** Resolves the reference in a value that is not a schema. @throws OperationProblem */
  resolved(value: Json | undefined): JsonObject
  /** Converts a schema, including the schemas it refers to, to JSON Schema. @throws OperationProblem */
  schema(value: Json | undefined): JsonObject
}

export function createSchemaReader(document: JsonObject): SchemaReader {
  let leftInAll = MOST_VALUES_IN_ALL

  function target(reference: Json): Json | undefined {
    if (typeof reference !== 'string' || !reference.startsWith('#/'))
      throw new OperationProblem(`The operation refers to another document: ${String(reference).slice(0, 200)}.`)
    const names = reference.slice(2).split('/').map(nameOf)
    return names.reduce<Json | undefined>((value, name) => childOf(value, name), document)
  }

  function found(reference: Json): Json {
    const value = target(reference)
    if (value === undefined)
      throw new OperationProblem(
        `The operation refers to a definition that the document does not contain: ${String(reference).slice(0, 200)}.`,
      )
    return value
  }

  function copy(value: Json, path: readonly string[], left: { values: number }, depth: number): Json {
    left.values -= 1
    leftInAll -= 1
    if (leftInAll < 0) throw new OperationProblem('The schemas of the document are too long in total.')
    if (left.values < 0) throw new OperationProblem(`The operation's schema has more than ${MOST_VALUES} values.`)
    if (depth > DEEPEST)
      throw new OperationProblem(`The operation's schema is nested more than ${DEEPEST} levels deep.`)
    if (Array.isArray(value)) return value.map((item) => copy(item, path, left, depth + 1))
    if (!isObject(value)) return value
    return copyObject(value, path, left, depth)
  }

  function copyObject(value: JsonObject, path: readonly string[], left: { values: number }, depth: number): Json {
    const { $ref } = value
    if (typeof $ref === 'string') {
      if (path.includes($ref))
        throw new OperationProblem(
          `The operation's schema refers to itself (${$ref.slice(0, 200)}), which models cannot fill in.`,
        )
      const { description } = value
      const copied = copy(found($ref), [...path, $ref], left, depth + 1)
      return isObject(copied) && typeof description === 'string' ? { ...copied, description } : copied
    }
    const kept = Object.entries(value).filter(([name]) => !NOT_SCHEMA.has(name) && !name.startsWith('x-'))
    const copied = Object.fromEntries(
      kept.map(([name, one]) => [
        name,
        name === 'properties' ? propertiesOf(one, path, left, depth) : copy(one, path, left, depth + 1),
      ]),
    )
    const schema = withoutReadOnly(copied, value['properties'])
    return value['nullable'] === true ? nullable(schema) : schema
  }

  /**
   * Reads the properties of a schema. The author of the document chose their names, so they must not be treated as
   * keywords.
   */
  function propertiesOf(value: Json, path: readonly string[], left: { values: number }, depth: number): Json {
    if (!isObject(value)) return {}
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, copy(one, path, left, depth + 2)]))
  }

  return {
    resolved(value) {
      let current = value
      for (let hops = 0; isObject(current) && typeof current['$ref'] === 'string'; hops += 1) {
        if (hops > 20) throw new OperationProblem('The operation has a circular reference.')
        current = found(current['$ref'])
      }
      return isObject(current) ? current : {}
    },
    schema(value) {
      const copied = copy(value ?? {}, [], { values: MOST_VALUES }, 0)
      return isObject(copied) ? copied : {}
    },
  }
}

function nameOf(segment: string): string {
  const name = segment.replaceAll('~1', '/').replaceAll('~0', '~')
  return percentDecoded(name) ?? name
}

function childOf(value: Json | undefined, name: string): Json | undefined {
  if (Array.isArray(value)) return value[Number(name)]
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

/** OpenAPI 3.0 uses `nullable: true` where JSON Schema uses the type `null`. */
function nullable(schema: JsonObject): JsonObject {
  const { type, enum: values } = schema
  const changed = { ...schema }
  if (typeof type === 'string') changed['type'] = [type, 'null']
  if (Array.isArray(values)) changed['enum'] = [...values, null]
  return changed
}

/** Removes read-only properties, which requests do not contain. `given`: the properties as they are in the document. */
function withoutReadOnly(schema: JsonObject, given: Json | undefined): JsonObject {
  const set = Object.entries(isObject(given) ? given : {}).filter(
    ([, one]) => isObject(one) && one['readOnly'] === true,
  )
  if (set.length === 0) return schema
  const names = new Set(set.map(([name]) => name))
  const properties = Object.entries(schema['properties'] as JsonObject).filter(([name]) => !names.has(name))
  const required = Array.isArray(schema['required'])
    ? schema['required'].filter((name) => !names.has(String(name)))
    : []
  return { ...schema, properties: Object.fromEntries(properties), required }
}
