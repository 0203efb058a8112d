import { type FieldNode, type GraphQLResolveInfo, getNamedType, isObjectType } from 'graphql'
import { collectSubfields } from 'graphql/execution/collectFields.js'

/**
 * Returns the names of the fields that the operation selects on the objects of the subfield `name`. Aliases are
 * ignored, and variables are applied.
 */
export function askedOf(info: GraphQLResolveInfo, name: string): Set<string> {
  const { schema, fragments, variableValues, returnType, fieldNodes } = info
  const below = (type: unknown, nodes: readonly FieldNode[]) =>
    isObjectType(type) ? [...collectSubfields(schema, fragments, variableValues, type, nodes).values()].flat() : []
  const type = getNamedType(returnType)
  const inner = isObjectType(type) ? type.getFields()[name]?.type : undefined
  const nodes = below(type, fieldNodes).filter((node) => node.name.value === name)
  return new Set(below(inner && getNamedType(inner), nodes).map((node) => node.name.value))
}

/** Returns the names of the fields that a subscription selects on events of a type. Aliases are ignored. */
export function askedOfEvent({ schema, fragments, variableValues, fieldNodes }: GraphQLResolveInfo, typeName: string) {
  const type = schema.getType(typeName)
  if (!isObjectType(type)) return new Set<string>()
  const nodes = [...collectSubfields(schema, fragments, variableValues, type, fieldNodes).values()].flat()
  return new Set(nodes.map((node) => node.name.value))
}
