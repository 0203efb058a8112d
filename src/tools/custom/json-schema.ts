import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import { Ajv2019 } from 'ajv/dist/2019.js'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { LRUCache } from 'lru-cache'
import type { Json, JsonObject } from '../../lib/json.ts'

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
  try {
    compiled(top)
    return null
  } catch (error) {
    return `The input schema is not valid JSON Schema: ${error instanceof Error ? error.message : error}.`
  }
}

/**
 * What is wrong with a tool's input, in words that a model can act on; null where nothing is. A schema that does not compile
 * accepts every object, so that an agent's run does not fail on a tool that was accepted before.
 */
export function checkInput(schema: JsonObject, input: unknown): string | null {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return 'The input must be a JSON object.'
  let validate: ValidateFunction
  try {
    validate = compiled(schema)
  } catch {
    return null
  }
  if (validate(input)) return null
  const errors = (validate.errors ?? []).filter(({ keyword }) => keyword !== 'if')
  const shown = [...new Set(errors.map(inWords))].slice(0, SHOWN)
  const more = errors.length > SHOWN ? `; and ${errors.length - SHOWN} more` : ''
  return `${shown.join('; ')}${more}.`
}

/**
 * An input in which a null stands for what was left out, as many models write it: without the nulls of optional properties.
 * One that the schema takes as it is means its nulls, and stays.
 */
export function withoutNulls(schema: JsonObject, input: Json): Json {
  return checkInput(schema, input) === null ? input : dropNulls(schema, input)
}

function dropNulls(schema: Json | undefined, value: Json): Json {
  if (!isObject(schema)) return value
  if (Array.isArray(value)) return value.map((item) => dropNulls(schema.items, item))
  if (!isObject(value)) return value
  const required = Array.isArray(schema.required) ? schema.required : []
  const properties = isObject(schema.properties) ? schema.properties : {}
  const kept = Object.entries(value).filter(([name, one]) => one !== null || required.includes(name))
  return Object.fromEntries(kept.map(([name, one]) => [name, dropNulls(properties[name], one)]))
}

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** How many faults of an input are told at once. */
const SHOWN = 5

const OPTIONS = {
  // Schemas come from people and MCP servers: unknown keywords and formats are left aside, as the specification says.
  strict: false,
  validateFormats: false,
  allErrors: true,
  messages: true,
  // Two schemas may have the same $id; ajv would refuse the second.
  addUsedSchema: false,
} as const

const DIALECTS = {
  'draft-07': new Ajv(OPTIONS),
  '2019-09': new Ajv2019(OPTIONS),
  '2020-12': new Ajv2020(OPTIONS),
}

/** Compiling takes milliseconds, so what was compiled is kept: the most recently used, by the schema's JSON text. It says nothing of who asked. */
const cache = new LRUCache<string, ValidateFunction>({ max: 500 })

function compiled(schema: JsonObject): ValidateFunction {
  const key = JSON.stringify(schema)
  const known = cache.get(key)
  if (known !== undefined) return known
  const { $schema, ...body } = schema
  const dialect = /\b(2019-09|2020-12)\b/.exec(typeof $schema === 'string' ? $schema : '')?.[1]
  const ajv = DIALECTS[(dialect as '2019-09' | undefined) ?? 'draft-07']
  try {
    const validate = ajv.compile(body)
    cache.set(key, validate)
    return validate
  } finally {
    // ajv keeps every schema it has compiled, for ever.
    ajv.removeSchema(body)
  }
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
