import {
  type GraphQLField,
  type GraphQLInputType,
  getNamedType,
  getNullableType,
  isCompositeType,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
} from 'graphql'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { schema } from '../../src/graphql/schema.ts'
import { RULE_STACKS } from '../support/application.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

// Built from the schema: passes an id or text that no database can store to every argument that takes an id or text.

const TEXTS = { 'a NUL': 'agt_\0', 'half a surrogate pair': 'spc_\ud800' }
const DEEPEST = 3

const NUMBERS: Record<string, unknown> = { Int: 1, Float: 1, Boolean: true, DateTime: '2026-01-01T00:00:00Z', JSON: {} }

/** Returns a value of the type, with this text as every id and text. */
function madeOf(type: GraphQLInputType, text: string, depth = 0): unknown {
  const nullable = getNullableType(type)
  if (isListType(nullable)) return [madeOf(nullable.ofType, text, depth)]
  if (isEnumType(nullable)) return nullable.getValues()[0]?.name
  if (!isInputObjectType(nullable)) return NUMBERS[nullable.name] ?? text
  const fields = Object.values(nullable.getFields())
  const given = fields.filter((field) => isNonNullType(field.type) || depth < DEEPEST)
  return Object.fromEntries(given.map((field) => [field.name, madeOf(field.type, text, depth + 1)]))
}

/** Tests each argument separately, together with the required ones. */
function questionsOf(field: GraphQLField<unknown, unknown>): { names: string[]; operation: string }[] {
  const required = field.args.filter(({ type }) => isNonNullType(type)).map(({ name }) => name)
  const sets = [required, ...field.args.map(({ name }) => [...new Set([...required, name])])]
  const selection = isCompositeType(getNamedType(field.type)) ? '{ __typename }' : ''
  return sets.map((names) => {
    const asked = field.args.filter(({ name }) => names.includes(name))
    const declared = asked.map(({ name, type }) => `$${name}: ${type}`).join(', ')
    const passed = asked.map(({ name }) => `${name}: $${name}`).join(', ')
    const [head, tail] = asked.length === 0 ? ['', ''] : [`(${declared})`, `(${passed})`]
    return { names, operation: `${head} { ${field.name}${tail} ${selection} }` }
  })
}

/** Returns every operation, with this text for every argument that accepts it. */
function operationsWith(text: string): { what: string; operation: string; variables: object }[] {
  const roots = { query: schema.getQueryType(), mutation: schema.getMutationType() }
  return Object.entries(roots).flatMap(([kind, root]) =>
    Object.values(root?.getFields() ?? {}).flatMap((field) =>
      questionsOf(field).map(({ names, operation }) => {
        const asked = field.args.filter(({ name }) => names.includes(name))
        const variables = Object.fromEntries(asked.map(({ name, type }) => [name, madeOf(type, text)]))
        return { what: `${field.name} ${names}`, operation: `${kind} ${operation}`, variables }
      }),
    ),
  )
}

describe.each(RULE_STACKS)('text that the database cannot store, on the %s stack', (stack) => {
  let parley: TestServer
  let clients: ParleyClient[]

  beforeAll(async () => {
    parley = await startTestServer({ stack, worker: false, settings: { PARLEY_RATE_REQUESTS: '0' } })
    clients = [await parley.clientOf(parley.admin), await parley.clientOf(await parley.human('Mallory'))]
  })
  afterAll(() => parley?.close())

  test.each(Object.entries(TEXTS))(
    '%s gets an ordinary response in every field that accepts an id or text',
    async (_, text) => {
      const operations = operationsWith(text)
      expect(operations.length).toBeGreaterThan(80)
      const faults: string[] = []
      for (const { what, operation, variables } of operations)
        for (const client of clients) {
          const answer = JSON.stringify(await client.ask(operation, variables))
          if (answer.includes('INTERNAL_SERVER_ERROR')) faults.push(what)
        }
      expect(faults).toEqual([])
    },
  )
})
