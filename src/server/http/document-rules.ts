import {
  type ASTVisitor,
  type DirectiveNode,
  type FloatValueNode,
  type FragmentDefinitionNode,
  GraphQLError,
  type IntValueNode,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
  SingleFieldSubscriptionsRule,
  specifiedRules,
  type ValidationContext,
  type ValidationRule,
} from 'graphql'
import { inexactNumberError, isExact } from '../../lib/exact-json.ts'

/**
 * Refuses `@skip` and `@include` at the root of a subscription, as graphql-js 17 and the specification of September
 * 2025 require. Other subscriptions are checked by the rule of graphql-js 16, because that of graphql-js 17 throws
 * if a directive uses a variable.
 */
function UnconditionalSubscriptionsRule(context: ValidationContext): ASTVisitor {
  const rule = SingleFieldSubscriptionsRule(context) as { OperationDefinition(node: OperationDefinitionNode): void }
  return {
    OperationDefinition(node) {
      const directives = node.operation === 'subscription' ? conditionsIn(node.selectionSet, context) : []
      if (directives.length === 0) return rule.OperationDefinition(node)
      const name = node.name ? `Subscription "${node.name.value}"` : 'Anonymous Subscription'
      const message = `${name} must not use \`@skip\` or \`@include\` directives in the top level selection.`
      context.reportError(new GraphQLError(message, { nodes: directives }))
    },
  }
}

/** Returns the `@skip` and `@include` directives of a selection set and of the fragments that it contains. */
function conditionsIn(
  { selections }: SelectionSetNode,
  context: ValidationContext,
  visited = new Set<FragmentDefinitionNode>(),
) {
  const found: DirectiveNode[] = []
  for (const selection of selections) {
    found.push(...(selection.directives ?? []).filter(({ name }) => ['skip', 'include'].includes(name.value)))
    if (selection.kind === Kind.INLINE_FRAGMENT) found.push(...conditionsIn(selection.selectionSet, context, visited))
    if (selection.kind !== Kind.FRAGMENT_SPREAD) continue
    const fragment = context.getFragment(selection.name.value)
    if (!fragment || visited.has(fragment)) continue
    visited.add(fragment)
    found.push(...conditionsIn(fragment.selectionSet, context, visited))
  }
  return found
}

/** Refuses number literals that JavaScript cannot represent exactly. */
function ExactNumbersRule(context: ValidationContext): ASTVisitor {
  const check = (node: FloatValueNode | IntValueNode) => {
    if (isExact(node.value)) return
    context.reportError(new GraphQLError(inexactNumberError(node.value).message, { nodes: node }))
  }
  return { IntValue: check, FloatValue: check }
}

const LONGEST_ALIAS = 200

/** Refuses very long aliases, because every item of a list repeats them in the response. */
function ShortAliasesRule(context: ValidationContext): ASTVisitor {
  return {
    Field({ alias }) {
      if (alias === undefined || alias.value.length <= LONGEST_ALIAS) return
      const message = `The alias "${alias.value.slice(0, 20)}…" is longer than ${LONGEST_ALIAS} characters. Shorten it.`
      context.reportError(new GraphQLError(message, { nodes: alias }))
    },
  }
}

/** The validation rules for every document: those of the specification and those above. */
export const documentRules: readonly ValidationRule[] = [
  ...specifiedRules.map((rule) => (rule === SingleFieldSubscriptionsRule ? UnconditionalSubscriptionsRule : rule)),
  ExactNumbersRule,
  ShortAliasesRule,
]
