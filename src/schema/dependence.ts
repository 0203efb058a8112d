import type { GraphQLField } from 'graphql'

/**
 * For `extensions` of a field whose resolver answers all viewers of one scope alike, given the same parent and arguments.
 * A field that says nothing counts as answering each viewer in its own way; one that only exposes a property of its parent
 * reads no viewer. Who adds a field may forget this: events are then shared by fewer, and nobody sees what is not theirs.
 */
export const SAME_FOR_SCOPE = { dependsOn: 'scope' } as const

/** Whether a field answers all viewers of one scope alike. */
export function isSameForScope({ extensions }: Pick<GraphQLField<unknown, unknown>, 'extensions'>): boolean {
  return extensions['dependsOn'] === SAME_FOR_SCOPE.dependsOn || extensions['pothosExposedField'] !== undefined
}
