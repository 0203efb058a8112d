import {
  GraphQLID,
  type GraphQLInputType,
  type GraphQLSchema,
  isInputObjectType,
  isListType,
  isNonNullType,
  isObjectType,
} from 'graphql'
import { itself } from './streams.ts'

type Given = Record<string, unknown>

/** Replaces characters that PostgreSQL cannot compare. The replacement is U+FFFD, which no id contains. */
const comparable = (id: string): string => id.replaceAll('\0', '\uFFFD').toWellFormed()

/**
 * Makes all fields except mutations accept any text as an id, so that an invalid id has the same effect as an
 * unknown one. Mutations validate their input themselves.
 */
export function withComparableIds(schema: GraphQLSchema): GraphQLSchema {
  const mutation = schema.getMutationType()
  for (const type of Object.values(schema.getTypeMap()).filter(isObjectType)) {
    if (type === mutation) continue
    for (const field of Object.values(type.getFields())) {
      const { resolve, subscribe } = field
      const args = field.args.filter((arg) => holdsId(arg.type))
      if (args.length === 0) continue
      const read = (given: Given): Given => ({
        ...given,
        ...Object.fromEntries(
          args.filter(({ name }) => name in given).map(({ name, type }) => [name, comparableIn(type, given[name])]),
        ),
      })
      // The resolver of events is not wrapped, because the fields of events take no arguments.
      if (resolve !== undefined && resolve !== itself)
        field.resolve = (parent, given, ...rest) => resolve(parent, read(given), ...rest)
      if (subscribe !== undefined) field.subscribe = (parent, given, ...rest) => subscribe(parent, read(given), ...rest)
    }
  }
  return schema
}

function holdsId(type: GraphQLInputType): boolean {
  if (isNonNullType(type) || isListType(type)) return holdsId(type.ofType)
  if (isInputObjectType(type)) return Object.values(type.getFields()).some((field) => holdsId(field.type))
  return type === GraphQLID
}

function comparableIn(type: GraphQLInputType, value: unknown): unknown {
  if (value === null || value === undefined) return value
  if (isNonNullType(type)) return comparableIn(type.ofType, value)
  if (isListType(type)) return (value as unknown[]).map((item) => comparableIn(type.ofType, item))
  if (!isInputObjectType(type)) return type === GraphQLID ? comparable(String(value)) : value
  const fields = type.getFields()
  const entries = Object.entries(value).map(([name, item]) => [name, comparableIn(fields[name]!.type, item)] as const)
  return Object.fromEntries(entries)
}
