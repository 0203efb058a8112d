import { parse } from 'graphql'
import { expect, test } from 'vitest'
import { schema } from '../../src/schema/schema.ts'
import { complexityOf } from '../../src/server/http/complexity.ts'

const costOf = (selection: string) => complexityOf({ schema, document: parse(`{ ${selection} }`) }).complexity

test.each([
  ['space(id: "x") { unreadCount }', 'space(id: "x") { name }'],
  ['space(id: "x") { firstUnreadMessage { id } }', 'space(id: "x") { lastMessage { id } }'],
  ['viewer { unreadCount }', 'viewer { serviceName }'],
  ['agents(search: "x") { edges { cursor } }', 'agents { edges { cursor } }'],
])('%s is charged more than %s', (costly, cheap) => {
  expect(costOf(costly)).toBeGreaterThan(costOf(cheap) + 3)
})
