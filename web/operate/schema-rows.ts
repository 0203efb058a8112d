/** One field of a schema that the form can create. */
export interface SchemaRow {
  name: string
  type: SchemaRowType
  isRequired: boolean
  description: string
  /** Other keywords, which the form keeps but cannot edit, e.g. `minimum`. */
  more: Readonly<Record<string, unknown>>
}

export const ROW_TYPES = ['string', 'number', 'integer', 'boolean', 'strings'] as const
/** `strings`: a list of texts. */
export type SchemaRowType = (typeof ROW_TYPES)[number]

/**
 * Returns the fields of a schema; null if it contains more than rows can express, which the form would lose.
 * `rowsOf(schemaOf(rows))` is `rows`.
 */
export function rowsOf(schema: unknown): SchemaRow[] | null {
  if (!isObject(schema) || schema['type'] !== 'object' || !hasOnly(schema, ['type', 'properties', 'required']))
    return null
  const { properties = {}, required = [] } = schema
  if (!isObject(properties) || !Array.isArray(required)) return null
  if (required.some((name) => typeof name !== 'string' || !Object.hasOwn(properties, name))) return null
  const rows = Object.entries(properties).map(([name, property]) => rowOf(name, property, required.includes(name)))
  return rows.some((row) => row === null) ? null : (rows as SchemaRow[])
}

function rowOf(name: string, property: unknown, isRequired: boolean): SchemaRow | null {
  if (!isObject(property)) return null
  const { type, description = '', items, ...more } = property
  const isList = type === 'array' && isObject(items) && items['type'] === 'string' && hasOnly(items, ['type'])
  const rowType = isList ? 'strings' : ROW_TYPES.find((one) => one === type && one !== 'strings')
  if (rowType === undefined || typeof description !== 'string' || (!isList && items !== undefined)) return null
  return { name, type: rowType, isRequired, description, more }
}

/**
 * Returns whether an earlier row has the same name. The form must reject this, because each property of a schema has a unique
 * name.
 */
export function hasNameBefore(rows: readonly SchemaRow[], at: number): boolean {
  const name = rows[at]?.name.trim()
  return name !== '' && rows.slice(0, at).some((row) => row.name.trim() === name)
}

/** Converts rows to a schema. Leaves out rows without a name. If two rows have the same name, the later one is used. */
export function schemaOf(rows: readonly SchemaRow[]): Record<string, unknown> {
  const named = new Map(rows.flatMap((row) => (row.name.trim() === '' ? [] : [[row.name.trim(), row] as const])))
  const properties = Object.fromEntries(
    [...named].map(([name, { type, description, more }]) => [
      name,
      {
        ...(type === 'strings' ? { type: 'array', items: { type: 'string' } } : { type }),
        ...(description.trim() === '' ? {} : { description: description.trim() }),
        ...more,
      },
    ]),
  )
  const required = [...named].filter(([, { isRequired }]) => isRequired).map(([name]) => name)
  return { type: 'object', properties, ...(required.length === 0 ? {} : { required }) }
}

const WORDS = new Map<string, (value: unknown) => string>([
  ['minimum', (value) => `at least ${value}`],
  ['maximum', (value) => `at most ${value}`],
  ['exclusiveMinimum', (value) => `more than ${value}`],
  ['exclusiveMaximum', (value) => `less than ${value}`],
  ['minLength', (value) => `at least ${value} characters`],
  ['maxLength', (value) => `at most ${value} characters`],
  ['minItems', (value) => `at least ${value} items`],
  ['maxItems', (value) => `at most ${value} items`],
  ['enum', (value) => `one of ${[value].flat().join(', ')}`],
])

/** Describes the other keywords of a row. Keywords without a description are shown as their name and JSON. */
export const wordsOfKeywords = (more: SchemaRow['more']): string =>
  Object.entries(more)
    .map(([keyword, value]) => WORDS.get(keyword)?.(value) ?? `${keyword} ${JSON.stringify(value)}`)
    .join(', ')

const hasOnly = (value: Record<string, unknown>, names: readonly string[]) =>
  Object.keys(value).every((name) => names.includes(name))

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
