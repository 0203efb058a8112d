import { isSameJson } from '../ui/json-text.ts'
import { titleOf, wordsOfValue } from './property-titles.ts'

/** A bound of one property of a call's input. */
export type Limit = { type: 'ONLY'; value: unknown } | { type: 'AT_MOST'; value: number }

/** The bounds of a standing grant that the form can express. */
export interface Bounds {
  limits: Readonly<Record<string, Limit>>
  maxCalls: number | null
  amountProperty: string | null
  maxAmount: number | null
}

/** Returns the JSON Schema of the limits; null if there are none. */
export function schemaOf(limits: Bounds['limits']): Record<string, unknown> | null {
  const names = Object.keys(limits)
  if (names.length === 0) return null
  const properties = Object.entries(limits).map(([name, { type, value }]) => [
    name,
    type === 'ONLY' ? { const: value } : { type: 'number', maximum: value },
  ])
  return { type: 'object', properties: Object.fromEntries(properties), required: names }
}

/** Returns which of these inputs, oldest first, a grant with these bounds would have covered. */
export function letThrough(bounds: Bounds, inputs: readonly unknown[]): boolean[] {
  const { limits, maxCalls, amountProperty, maxAmount } = bounds
  let calls = 0
  let sum = 0
  return inputs.map((input) => {
    if (typeof input !== 'object' || input === null) return false
    const values = input as Record<string, unknown>
    if (!Object.entries(limits).every(([name, limit]) => isWithin(limit, values[name]))) return false
    const amount = amountProperty === null ? 0 : values[amountProperty]
    if (typeof amount !== 'number' || !Number.isFinite(amount) || amount < 0) return false
    if (maxCalls !== null && calls + 1 > maxCalls) return false
    // Sums of decimals, such as 0.1 + 0.2, are compared without their rounding error.
    if (maxAmount !== null && Number((sum + amount).toPrecision(12)) > maxAmount) return false
    calls += 1
    sum += amount
    return true
  })
}

function isWithin(limit: Limit, value: unknown): boolean {
  if (value === undefined) return false
  return limit.type === 'ONLY' ? isSameJson(value, limit.value) : typeof value === 'number' && value <= limit.value
}

/** Describes the limit of one property: `Rolls: at most 2`. `schema` titles the property. */
export function wordsOfLimit(name: string, limit: Limit | undefined, schema: unknown = null): string {
  const title = titleOf(name, schema)
  if (limit === undefined) return `${title}: any value`
  const { type, value } = limit
  if (type === 'AT_MOST') return `${title}: at most ${wordsOfValue(value, title)}`
  return `${title}: only ${typeof value === 'string' ? JSON.stringify(value) : wordsOfValue(value, title)}`
}

/** Describes a schema that `schemaOf` could have created; null for any other schema. */
export function wordsOfSchema(schema: unknown): string[] | null {
  if (schema === null) return []
  const { type, properties, required, ...others } = schema as Record<string, unknown>
  const isOurs = type === 'object' && typeof properties === 'object' && properties !== null && Array.isArray(required)
  if (!isOurs || Object.keys(others).length > 0) return null
  const words: string[] = []
  for (const [name, limit] of Object.entries(properties)) {
    if (!required.includes(name) || typeof limit !== 'object' || limit === null) return null
    if ('const' in limit && Object.keys(limit).length === 1)
      words.push(wordsOfLimit(name, { type: 'ONLY', value: limit.const }))
    else if ('maximum' in limit && 'type' in limit && limit.type === 'number' && Object.keys(limit).length === 2)
      words.push(wordsOfLimit(name, { type: 'AT_MOST', value: Number(limit.maximum) }))
    else return null
  }
  return words
}
