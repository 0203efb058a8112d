import { type FieldNode, type GraphQLResolveInfo, getNamedType, isObjectType } from 'graphql'
import { collectSubfields } from 'graphql/execution/collectFields.js'

/** The names of what an operation asks of the objects that a field's field `name` leads to, under whatever aliases, with the variables as they are. */
export function askedOf(info: GraphQLResolveInfo, name: string): Set<string> {
  const { schema, fragments, variableValues, returnType, fieldNodes } = info
  const below = (type: unknown, nodes: readonly FieldNode[]) =>
    isObjectType(type) ? [...collectSubfields(schema, fragments, variableValues, type, nodes).values()].flat() : []
  const type = getNamedType(returnType)
  const inner = isObjectType(type) ? type.getFields()[name]?.type : undefined
  const nodes = below(type, fieldNodes).filter((node) => node.name.value === name)
  return new Set(below(inner && getNamedType(inner), nodes).map((node) => node.name.value))
}
