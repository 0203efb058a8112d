import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import { Ajv2019 } from 'ajv/dist/2019.js'
import { Ajv2020 } from 'ajv/dist/2020.js'
import traverse from 'json-schema-traverse'
import { LRUCache } from 'lru-cache'
import type { JsonObject } from '../../lib/json.ts'

/**
 * Why a schema cannot be a tool's input schema, in a sentence; null where it can. It must be a JSON Schema (draft 7, 2019-09
 * or 2020-12; draft 7 where it does not say) that compiles, and of an object at the top: models' providers refuse others.
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

/** Why a schema cannot be that of what is submitted as a result, in a sentence; null where it can: any JSON Schema that compiles. */
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

/** Whose schema it is. */
interface SchemaOrigin {
  /** A built-in tool's: it needs no check itself, for the first of which a process stands still for some 30 ms. */
  isOurs?: boolean
}

/** What is wrong with a tool's input, in words that a model can act on; null where nothing is. */
export function checkInput(schema: JsonObject, input: unknown, origin?: SchemaOrigin): string | null {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return 'The input must be a JSON object.'
  return checkJson(schema, input, origin)
}

/** The same of any JSON, such as what is submitted as a call's result. */
export function checkJson(schema: JsonObject, value: unknown, origin?: SchemaOrigin): string | null {
  let validate: ValidateFunction
  try {
    validate = compiled(schema, origin)
  } catch {
    return 'The input schema of this tool is not valid JSON Schema: it takes no input. Go on without this tool.'
  }
  if (validate(value) === true) return null
  const errors = (validate.errors ?? []).filter(({ keyword }) => keyword !== 'if')
  const shown = [...new Set(errors.map(inWords))].slice(0, SHOWN)
  const more = errors.length > SHOWN ? `; and ${errors.length - SHOWN} more` : ''
  return `${shown.join('; ')}${more}.`
}

/** How many faults of an input are told at once. */
const SHOWN = 5

const OPTIONS = {
  // Schemas come from people and MCP servers: unknown keywords and formats are left aside, as the specification says.
  strict: false,
  validateFormats: false,
  allErrors: true,
  messages: true,
} as const

const DIALECTS = { 'draft-07': Ajv, '2019-09': Ajv2019, '2020-12': Ajv2020 }

/** Where a schema is checked against its dialect's own: nothing of it is kept there. */
const metaSchemas = new Map<keyof typeof DIALECTS, Ajv>()

/** Compiling takes milliseconds, so what was compiled is kept: the most recently used, by the schema's JSON text and its length. */
const cache = new LRUCache<string, ValidateFunction>({ maxSize: 2_000_000, sizeCalculation: (_, text) => text.length })

/** Each schema is compiled by itself: what it calls itself and its parts means nothing to another one. @throws why it cannot be */
function compiled(schema: JsonObject, { isOurs = false }: SchemaOrigin = {}): ValidateFunction {
  const key = JSON.stringify(schema)
  const known = cache.get(key)
  if (known !== undefined) return known
  const { $schema, ...rest } = schema
  const named = /\b(2019-09|2020-12)\b/.exec(typeof $schema === 'string' ? $schema : '')?.[1]
  const dialect = (named as keyof typeof DIALECTS | undefined) ?? 'draft-07'
  const body = withoutIds(rest)
  if (!isOurs) checkAgainstDialect(body, dialect)
  const validate = new DIALECTS[dialect]({ ...OPTIONS, validateSchema: false }).compile(body)
  cache.set(key, validate)
  return validate
}

/** @throws what is wrong with it */
function checkAgainstDialect(schema: JsonObject, dialect: keyof typeof DIALECTS): void {
  const meta = metaSchemas.get(dialect) ?? new DIALECTS[dialect](OPTIONS)
  metaSchemas.set(dialect, meta)
  if (meta.validateSchema(schema) !== true) throw new Error(meta.errorsText(meta.errors))
}

/**
 * A copy in which no part has an address of its own: that could stand in the way of the specification's schemas, and nothing of a
 * tool's schema is found by address. @throws for one that is to be checked by asking somebody (ajv's `$async`)
 */
function withoutIds(schema: JsonObject): JsonObject {
  const copy = structuredClone(schema)
  traverse(copy, { allKeys: true }, (part) => {
    if ('$async' in part) throw new Error('$async is not allowed')
    for (const name of ['$id', 'id']) if (typeof part[name] === 'string') delete part[name]
  })
  return copy
}

/** `days must be integer`, `address.city is required`, … */
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
