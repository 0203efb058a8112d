// Optimization: lets subscribers that began at different cursors share answers. To remove this stage, use all
// variables as the key. Gain: without the stage, each client that has reconnected is a separate group, for which
// the server executes the operation once more per event. The limit in test/delivery/shared-work.test.ts needs this
// stage: the server looks up an event once for all subscribers with the same view, whichever cursor they began at.
// No benchmark measures this stage, because none subscribes with a cursor (docs/decisions/delivery-stages.md).
import { type DocumentNode, getOperationAST, Kind, type OperationDefinitionNode, visit } from 'graphql'
import { isAdmin, type Ranked } from '../rules/permissions.ts'

/** The only argument that may differ between subscribers that share answers. */
const OWN_ARGUMENT = 'after'

interface Shape {
  number: number
  /** The variable that is used only for `after`; null if there is none. */
  ownVariable: string | null
}

let lastNumber = 0
/** The shapes by parsed document, so that a cached document is analysed only once. */
const shapes = new WeakMap<DocumentNode, Map<string, Shape>>()

/**
 * Returns the answer key of a subscription. The events of two subscriptions with the same key have the same
 * answers, unless an answer depends on the viewer. The key consists of the operation of a valid document, its
 * variables without the one for `after`, and the rights of the viewer's scope and role.
 */
export function answerKey(
  document: DocumentNode,
  operationName: string | null | undefined,
  viewer: Ranked,
  variables: Readonly<Record<string, unknown>> | null | undefined,
): string {
  const { number, ownVariable } = shapeOf(document, operationName ?? '')
  const common = { ...variables }
  if (ownVariable !== null) delete common[ownVariable]
  return JSON.stringify([number, viewer.scope, isAdmin(viewer), common])
}

function shapeOf(document: DocumentNode, name: string): Shape {
  const ofDocument = shapes.get(document) ?? new Map<string, Shape>()
  shapes.set(document, ofDocument)
  const cached = ofDocument.get(name)
  if (cached !== undefined) return cached
  lastNumber += 1
  const operation = getOperationAST(document, name === '' ? null : name)
  const shape = { number: lastNumber, ownVariable: operation ? ownVariableOf(document, operation) : null }
  ofDocument.set(name, shape)
  return shape
}

/**
 * Finds the variable only if the root field is selected directly. A subscription whose root field is in a fragment
 * shares a key only with subscriptions that begin at the same cursor.
 */
function ownVariableOf(
  document: DocumentNode,
  { selectionSet: { selections } }: OperationDefinitionNode,
): string | null {
  const [root] = selections
  if (selections.length !== 1 || root?.kind !== Kind.FIELD) return null
  const value = root.arguments?.find(({ name }) => name.value === OWN_ARGUMENT)?.value
  if (value?.kind !== Kind.VARIABLE) return null
  const name = value.name.value
  let uses = 0
  visit(document, {
    VariableDefinition: () => false,
    Variable(node) {
      if (node.name.value === name) uses += 1
    },
  })
  return uses === 1 ? name : null
}
