import { getIntrospectionQuery, parse } from 'graphql'
import { expect, test } from 'vitest'
import { schema } from '../../src/graphql/schema.ts'
import { complexityOf, excessOf } from '../../src/server/http/complexity.ts'

const costOf = (selection: string) => complexityOf({ schema, document: parse(`{ ${selection} }`) }).complexity

test.each([
  ['space(id: "x") { unreadCount }', 'space(id: "x") { name }'],
  ['space(id: "x") { firstUnreadMessage { id } }', 'space(id: "x") { lastMessage { id } }'],
  ['viewer { unreadCount }', 'viewer { serviceName }'],
  ['agents(search: "x") { edges { cursor } }', 'agents { edges { cursor } }'],
])('%s costs more than %s', (costly, cheap) => {
  expect(costOf(costly)).toBeGreaterThan(costOf(cheap) + 3)
})

test('each value of an argument has its own cost: an omitted one, a number or a list', () => {
  const document = parse(`query ($search: String, $first: Int, $ids: [ID!]!) {
    agents(search: $search, first: $first) { edges { cursor } } nodes(ids: $ids) { id }
  }`)
  const few = { search: 'x', first: 1, ids: ['a'] }
  const costOf = (variables: object) =>
    complexityOf({ schema, document, variableValues: { ...few, ...variables } }).complexity
  const least = costOf({})
  expect(costOf({ search: null })).toBeLessThan(least)
  expect(costOf({ first: 50 })).toBeGreaterThan(least)
  expect(costOf({ ids: ['a', 'b', 'c'] })).toBeGreaterThan(least)
  const byText = parse('query ($search: String) { agents(search: $search) { edges { cursor } } }')
  const given = complexityOf({ schema, document: byText, variableValues: { search: 'x' } })
  expect(complexityOf({ schema, document: byText, variableValues: { search: 'y' } })).toEqual(given)
  expect(complexityOf({ schema, document: byText }).complexity).toBeLessThan(given.complexity)
})

test("a client's introspection query is allowed, and a query with many aliases of the same field is refused", () => {
  const excess = (text: string) => excessOf(complexityOf({ schema, document: parse(text) }))
  expect(excess(getIntrospectionQuery({ inputValueDeprecation: true, specifiedByUrl: true, oneOf: true }))).toBeNull()
  const names = Array.from({ length: 400 }, (_, n) => `d${n}: description`).join(' ')
  expect(excess(`{ __schema { types { fields { ${names} } } } }`)?.message).toContain('300 introspection fields')
  const doubled = Array.from(
    { length: 40 },
    (_, n) => `fragment f${n} on __Schema { ...f${n + 1} a${n}: description ...f${n + 1} }`,
  )
  expect(
    excess(`{ __schema { ...f0 } } ${doubled.join(' ')} fragment f40 on __Schema { description }`)?.extensions['code'],
  ).toBe('QUERY_TOO_COMPLEX')
})
