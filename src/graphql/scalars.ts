import { GraphQLError, Kind, type ValueNode } from 'graphql'
import type { Json } from '../lib/json.ts'
import { builder } from './builder.ts'

const INSTANT = /^(\d{4}-\d{2}-\d{2})[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$/

const FIRST = new Date('0001-01-01T00:00:00Z')
const LAST = new Date('9999-12-31T23:59:59.999Z')

/**
 * Parses an RFC 3339 timestamp.
 * @throws GraphQLError for any other value, and for dates that do not exist in the calendar
 */
function instantOf(value: unknown): Date {
  const day = typeof value === 'string' ? INSTANT.exec(value)?.[1] : undefined
  const date = new Date(day === undefined ? Number.NaN : (value as string).toUpperCase())
  // `Date` would interpret 30 February as 1 March.
  const exists = !Number.isNaN(date.getTime()) && new Date(`${day}T00:00:00Z`).toISOString().startsWith(`${day}`)
  // PostgreSQL can store every time in this range with every offset.
  if (!exists || date < FIRST || date > LAST)
    throw new GraphQLError('Must be an RFC 3339 instant like 2026-01-31T09:30:00Z.')
  return date
}

builder.scalarType('DateTime', {
  description: 'An RFC 3339 instant in UTC.',
  serialize: (date) => new Date(date).toISOString(),
  parseValue: instantOf,
})

builder.scalarType('StreamCursor', {
  description:
    'An opaque position in an event stream (not in a page). Pass the last one that you received as `after` to resume without a gap.',
  serialize: (cursor) => cursor,
  parseValue(value) {
    if (typeof value !== 'string') throw new GraphQLError('A StreamCursor must be a string.')
    return value
  },
})

/** Converts a literal in a document to a JSON value. */
function jsonOfLiteral(node: ValueNode, variables: Record<string, unknown> | null | undefined): Json {
  switch (node.kind) {
    case Kind.VARIABLE:
      return (variables?.[node.name.value] ?? null) as Json
    case Kind.NULL:
      return null
    case Kind.INT:
    case Kind.FLOAT:
      return Number(node.value)
    case Kind.LIST:
      return node.values.map((item) => jsonOfLiteral(item, variables))
    case Kind.OBJECT:
      // `fromEntries` is used because an assignment to `__proto__` would set the prototype instead of a field.
      return Object.fromEntries(node.fields.map(({ name, value }) => [name.value, jsonOfLiteral(value, variables)]))
    default:
      return node.value
  }
}

builder.scalarType('JSON', {
  description: 'Any JSON value.',
  serialize: (value) => value,
  parseValue: (value) => value as NonNullable<Json>,
  parseLiteral: (node, variables) => jsonOfLiteral(node, variables) as NonNullable<Json>,
})
