import {
  GraphQLNonNull,
  type GraphQLObjectType,
  getNamedType,
  isCompositeType,
  isInterfaceType,
  isObjectType,
} from 'graphql'
import { schema } from '../../src/graphql/schema.ts'

const objects = Object.values(schema.getTypeMap()).filter(isObjectType)

/** The types that have their own id. */
export const nodeTypes = objects.filter((type) => type.getInterfaces().some(({ name }) => name === 'Node'))

/** Selects every field of a type that needs no argument, up to a depth. */
export function selectionOf(type: GraphQLObjectType, depth: number): string {
  const fields = Object.values(type.getFields()).flatMap((field) => {
    if (field.args.some(({ type, defaultValue }) => type instanceof GraphQLNonNull && defaultValue === undefined))
      return []
    const named = getNamedType(field.type)
    if (!isCompositeType(named)) return [field.name]
    if (depth === 0) return []
    const inner = isObjectType(named)
      ? selectionOf(named, depth - 1)
      : `__typename ${schema
          .getPossibleTypes(named)
          .map((one) => `... on ${one.name} { __typename ${isInterfaceType(named) ? 'id' : ''} }`)
          .join(' ')}`
    const args = /Connection$/.test(named.name) ? '(first: 2)' : ''
    return [`${field.name}_${type.name}: ${field.name}${args} { __typename ${inner} }`]
  })
  return fields.map((field) => (field.includes(':') ? field : `${field}_${type.name}: ${field}`)).join(' ')
}
