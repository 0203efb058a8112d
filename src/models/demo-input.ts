import { isObject } from '../lib/json.ts'

/**
 * The part of JSON Schema that the demo model understands. It is declared here because the type in `ai` is `any`
 * without @types/json-schema.
 */
export interface InputSchema {
  $ref?: string
  type?: string | string[]
  const?: unknown
  enum?: unknown[]
  default?: unknown
  examples?: unknown[]
  oneOf?: (InputSchema | boolean)[]
  anyOf?: (InputSchema | boolean)[]
  properties?: Record<string, InputSchema | boolean>
  required?: string[]
  items?: InputSchema | boolean | (InputSchema | boolean)[]
  minItems?: number
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  format?: string
}

type SchemaOrBoolean = InputSchema | boolean

/** Sources of plausible values. */
export interface InputHints {
  /** The message that requests the call. */
  text: string
  spaceId: string | null
  /** Values by property name. They are used wherever the schema has a property with this name. */
  values?: Record<string, unknown>
}

/**
 * Returns input that matches a tool's JSON Schema. The result is deterministic. A value comes from the message (a
 * number, an enum value, a place after "in") or from the schema's default or example. If there is none, it is the
 * smallest valid value. It omits an optional property unless a hint or the message has a value for it.
 */
export function plausibleInput(schema: InputSchema, hints: InputHints): Record<string, unknown> {
  const value = plausibleValue(schema, '', hints, schema, 0)
  return isObject(value) ? value : {}
}

/** The maximum depth of generated input. Deeper values of recursive schemas become null. */
const DEEPEST = 8

function plausibleValue(
  definition: SchemaOrBoolean | undefined,
  name: string,
  hints: InputHints,
  root: InputSchema,
  depth: number,
): unknown {
  if (definition === undefined || typeof definition === 'boolean' || depth > DEEPEST) return null
  const schema = resolved(definition, root)
  if (hints.values !== undefined && Object.hasOwn(hints.values, name)) return hints.values[name]
  if (schema.const !== undefined) return schema.const
  if (schema.enum !== undefined) return chosen(schema.enum, hints.text)
  const alternatives = schema.oneOf ?? schema.anyOf
  if (alternatives !== undefined) return plausibleValue(alternatives[0], name, hints, root, depth + 1)
  switch (typeOf(schema)) {
    case 'object':
      return plausibleObject(schema, hints, root, depth)
    case 'array':
      return Array.from({ length: Math.max(1, schema.minItems ?? 1) }, () =>
        plausibleValue(Array.isArray(schema.items) ? schema.items[0] : schema.items, name, hints, root, depth + 1),
      )
    case 'number':
    case 'integer':
      return plausibleNumber(schema, hints.text)
    case 'boolean':
      return schema.default ?? true
    case 'string':
      return plausibleString(schema, name, hints)
    default:
      return schema.default ?? null
  }
}

function plausibleObject(schema: InputSchema, hints: InputHints, root: InputSchema, depth: number): object {
  const required = new Set(schema.required ?? [])
  const entries = Object.entries(schema.properties ?? {}).filter(
    ([name, property]) => required.has(name) || isNamed(name, property, hints, root),
  )
  return Object.fromEntries(
    entries.map(([name, property]) => [name, plausibleValue(property, name, hints, root, depth + 1)]),
  )
}

/** Whether a hint or the message has a value for an optional property. */
function isNamed(name: string, property: SchemaOrBoolean, hints: InputHints, root: InputSchema): boolean {
  if (hints.values !== undefined && Object.hasOwn(hints.values, name)) return true
  if (typeof property === 'boolean') return false
  if (isSpaceId(name)) return hints.spaceId !== null
  const { enum: values } = resolved(property, root)
  return values?.some((value) => mentions(hints.text, String(value))) ?? false
}

function resolved(schema: InputSchema, root: InputSchema): InputSchema {
  const path = /^#\/(.+)$/.exec(schema.$ref ?? '')?.[1]
  if (path === undefined) return schema
  const target = path
    .split('/')
    .reduce<unknown>((value, key) => (value as Record<string, unknown> | undefined)?.[key], root)
  return typeof target === 'object' && target !== null ? (target as InputSchema) : {}
}

function typeOf(schema: InputSchema): string | undefined {
  const type = Array.isArray(schema.type) ? schema.type.find((name) => name !== 'null') : schema.type
  return type ?? (schema.properties === undefined ? undefined : 'object')
}

function chosen(values: unknown[], text: string): unknown {
  return values.find((value) => typeof value === 'string' && mentions(text, value)) ?? values[0]
}

function mentions(text: string, value: string): boolean {
  return value !== '' && text.toLowerCase().includes(value.toLowerCase())
}

function plausibleNumber(schema: InputSchema, text: string): unknown {
  const named = /-?\d+(?:\.\d+)?/.exec(text)?.[0]
  const number = named === undefined ? undefined : Number(named)
  const { minimum = Number.NEGATIVE_INFINITY, maximum = Number.POSITIVE_INFINITY } = schema
  const fits = (value: number) =>
    value >= minimum && value <= maximum && (schema.type !== 'integer' || Number.isInteger(value))
  if (number !== undefined && fits(number)) return number
  if (schema.default !== undefined) return schema.default
  return fits(1)
    ? 1
    : Number.isFinite(minimum)
      ? Math.ceil(minimum)
      : Number.isFinite(maximum)
        ? Math.floor(maximum)
        : 1
}

/** A fixed value for `date` and `date-time`, so that the model is deterministic. */
const A_MOMENT = '2026-01-01T09:00:00Z'

function plausibleString(schema: InputSchema, name: string, hints: InputHints): unknown {
  const formats: Record<string, string> = {
    'date-time': A_MOMENT,
    date: A_MOMENT.slice(0, 10),
    email: 'someone@example.com',
    uri: 'https://example.com/',
  }
  if (isSpaceId(name) && hints.spaceId !== null) return hints.spaceId
  const place = /\b(?:in|for|at|of) ((?:\p{Lu}[\p{L}'-]+ ?)+)/u.exec(hints.text)?.[1]?.trim()
  const fitting =
    schema.default ??
    formats[schema.format ?? ''] ??
    (/city|place|location|town|country/i.test(name) ? (place ?? 'Berlin') : undefined) ??
    schema.examples?.[0] ??
    hints.text
  return typeof fitting === 'string' ? sized(fitting, schema) : fitting
}

function sized(text: string, { minLength = 0, maxLength = 500 }: InputSchema): string {
  return text.slice(0, maxLength).padEnd(minLength, '.')
}

function isSpaceId(name: string): boolean {
  return /^(target)?space_?id$/i.test(name)
}
