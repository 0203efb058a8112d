import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import { Ajv2019 } from 'ajv/dist/2019.js'
import { Ajv2020 } from 'ajv/dist/2020.js'
import traverse from 'json-schema-traverse'
import { LRUCache } from 'lru-cache'
import type { JsonObject } from './json.ts'
import { withLocalRefs } from './normal-schema.ts'

/**
 * Returns a sentence that says why a schema cannot be a tool's input schema; null if it is accepted. It must be a valid
 * JSON Schema of draft 7 (the default), 2019-09 or 2020-12. It must describe an object, because model providers reject
 * other schemas.
 */
export function checkInputSchema(schema: unknown): string | null {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) {
    return 'The input schema must be a JSON Schema object.'
  }
  const top = schema as JsonObject
  if (top.type !== 'object') return 'The input schema must have "type": "object" at the top.'
  const refused = ['oneOf', 'anyOf', 'allOf', 'not', 'enum'].find((keyword) => keyword in top)
  if (refused !== undefined) return `The input schema must not have "${refused}" at the top.`
  return faultOf(top, 'input schema')
}

/**
 * Returns a sentence that says why a schema cannot be a result schema; null if it is accepted. Any JSON Schema that
 * compiles is accepted.
 */
export function checkSchema(schema: unknown): string | null {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema))
    return 'The schema must be a JSON Schema object.'
  return faultOf(schema as JsonObject, 'schema')
}

function faultOf(schema: JsonObject, what: string): string | null {
  try {
    compiled(schema)
    return null
  } catch (error) {
    return `The ${what} is not valid JSON Schema: ${error instanceof Error ? error.message : error}.`
  }
}

/** The origin of a schema. */
interface SchemaOrigin {
  /**
   * Whether it is the schema of a built-in tool. Such a schema is not validated, because the first validation blocks
   * the process for about 30 ms.
   */
  isOurs?: boolean
}

/** Returns the error in a tool's input, in words that help a model to correct it; null if the input is valid. */
export function checkInput(schema: JsonObject, input: unknown, origin?: SchemaOrigin): string | null {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return 'The input must be a JSON object.'
  return checkJson(schema, input, origin)
}

/** Like `checkInput`, for any JSON value, such as the submitted result of a call. */
export function checkJson(schema: JsonObject, value: unknown, origin?: SchemaOrigin): string | null {
  let validate: ValidateFunction
  try {
    validate = compiled(schema, origin)
  } catch {
    return 'The input schema of this tool is not valid JSON Schema: it accepts no input. Continue without this tool.'
  }
  if (validate(value) === true) return null
  const errors = (validate.errors ?? []).filter(({ keyword }) => keyword !== 'if')
  const shown = [...new Set(errors.map(inWords))].slice(0, SHOWN)
  const more = errors.length > SHOWN ? `; and ${errors.length - SHOWN} more` : ''
  return `${shown.join('; ')}${more}.`
}

/** The maximum number of faults in one message. */
const SHOWN = 5

const OPTIONS = {
  // Schemas come from people and MCP servers. The specification requires that unknown keywords and formats are ignored.
  strict: false,
  validateFormats: false,
  allErrors: true,
  messages: true,
} as const

const DIALECTS = { 'draft-07': Ajv, '2019-09': Ajv2019, '2020-12': Ajv2020 }

/** Ajv instances that validate schemas against their dialect. They never compile an untrusted schema. */
const metaSchemas = new Map<keyof typeof DIALECTS, Ajv>()

/** Compiling takes milliseconds, so compiled schemas are cached by their JSON text. */
const cache = new LRUCache<string, ValidateFunction>({ maxSize: 2_000_000, sizeCalculation: (_, text) => text.length })

/**
 * Compiles a schema in isolation, so that ids in one schema do not affect others.
 * @throws Error with the reason if the schema does not compile
 */
function compiled(schema: JsonObject, { isOurs = false }: SchemaOrigin = {}): ValidateFunction {
  const key = JSON.stringify(schema)
  const known = cache.get(key)
  if (known !== undefined) return known
  const { $schema, ...rest } = schema
  const named = /\b(2019-09|2020-12)\b/.exec(typeof $schema === 'string' ? $schema : '')?.[1]
  const dialect = (named as keyof typeof DIALECTS | undefined) ?? 'draft-07'
  const body = withoutIds(withLocalRefs(rest))
  if (!isOurs) checkAgainstDialect(body, dialect)
  const validate = new DIALECTS[dialect]({ ...OPTIONS, validateSchema: false }).compile(body)
  cache.set(key, validate)
  return validate
}

/** @throws Error with the faults of the schema */
function checkAgainstDialect(schema: JsonObject, dialect: keyof typeof DIALECTS): void {
  const meta = metaSchemas.get(dialect) ?? new DIALECTS[dialect](OPTIONS)
  metaSchemas.set(dialect, meta)
  if (meta.validateSchema(schema) !== true) throw new Error(meta.errorsText(meta.errors))
}

/**
 * Returns a copy without `$id` and `id`, which could collide with those of the specification's schemas. References by
 * id have already been replaced with JSON pointers.
 * @throws Error for a schema with asynchronous checks (ajv's `$async`)
 */
function withoutIds(schema: JsonObject): JsonObject {
  const copy = structuredClone(schema)
  traverse(copy, { allKeys: true }, (part) => {
    if ('$async' in part) throw new Error('$async is not allowed')
    for (const name of ['$id', 'id']) if (typeof part[name] === 'string') delete part[name]
  })
  return copy
}

/** Describes an error, such as `days must be integer` or `address.city is required`. */
function inWords({ instancePath, keyword, params, message = 'is not valid' }: ErrorObject): string {
  const path = instancePath
    .slice(1)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .join('.')
  const inside = (property: string) => (path === '' ? property : `${path}.${property}`)
  if (keyword === 'required') return `${inside(params.missingProperty)} is required`
  if (keyword === 'additionalProperties') return `${inside(params.additionalProperty)} is not a known property`
  if (keyword === 'unevaluatedProperties') return `${inside(params.unevaluatedProperty)} is not a known property`
  const subject = path === '' ? 'the input' : path
  if (keyword === 'enum')
    return `${subject} must be one of ${params.allowedValues.map((v: unknown) => JSON.stringify(v)).join(', ')}`
  if (keyword === 'const') return `${subject} must be ${JSON.stringify(params.allowedValue)}`
  return `${subject} ${message}`
}
