import { readFileSync } from 'node:fs'
import {
  buildSchema,
  findBreakingChanges,
  findDangerousChanges,
  type GraphQLSchema,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isObjectType,
} from 'graphql'
import { expect, test } from 'vitest'
import { schema } from '../../src/schema/schema.ts'

const contract = buildSchema(readFileSync(new URL('../contract/schema.graphql', import.meta.url), 'utf8'))

/** Every description of a schema, by the dotted name of what it describes. */
function descriptionsOf(described: GraphQLSchema): Map<string, string> {
  const found = new Map<string, string>()
  const note = (name: string, { description }: { description?: string | null }) =>
    description && found.set(name, description)
  for (const type of Object.values(described.getTypeMap())) {
    if (type.name.startsWith('__')) continue
    note(type.name, type)
    if (isEnumType(type)) for (const value of type.getValues()) note(`${type.name}.${value.name}`, value)
    if (isObjectType(type) || isInterfaceType(type) || isInputObjectType(type)) {
      for (const field of Object.values(type.getFields())) note(`${type.name}.${field.name}`, field)
    }
  }
  return found
}

test('what the contract says of a type, a field or a value, the schema says in the same words', () => {
  const own = descriptionsOf(schema)
  const different = [...descriptionsOf(contract)].filter(([name, text]) => own.get(name) !== text)
  expect(different.map(([name, text]) => ({ name, contract: text, ours: own.get(name) }))).toEqual([])
})

test('the schema takes nothing away from the contract, nor does a later schema that adds to it surprise its clients', () => {
  expect(findBreakingChanges(contract, schema)).toEqual([])
  expect(findDangerousChanges(contract, schema)).toEqual([])
})
