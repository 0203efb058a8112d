import { readFileSync } from 'node:fs'
import { buildSchema, findBreakingChanges, findDangerousChanges } from 'graphql'
import { expect, test } from 'vitest'
import { schema } from '../../src/schema/schema.ts'

const contract = buildSchema(readFileSync(new URL('../contract/schema.graphql', import.meta.url), 'utf8'))

test('the schema takes nothing away from the contract, nor does a later schema that adds to it surprise its clients', () => {
  expect(findBreakingChanges(contract, schema)).toEqual([])
  expect(findDangerousChanges(contract, schema)).toEqual([])
})
