import { type DocumentNode, getOperationAST, Kind, type OperationDefinitionNode, visit } from 'graphql'
import type { Viewer } from '../../access/viewer.ts'

/** Where a subscriber begins is its own affair. */
const OWN_ARGUMENT = 'after'

interface Shape {
  number: number
  /** The variable that says where to begin, and says nothing else. */
  ownVariable: string | null
}

let lastNumber = 0
/** By document as it was parsed: a cached one is looked at once. */
const shapes = new WeakMap<DocumentNode, Map<string, Shape>>()

/**
 * What two subscriptions must have in common for their events to be answered alike, as far as they ask nothing of their viewers:
 * the operation of a valid document, its variables but for the place to begin at, and the scope.
 */
export function answerKey(
  document: DocumentNode,
  operationName: string | null | undefined,
  { scope }: Pick<Viewer, 'scope'>,
  variables: Readonly<Record<string, unknown>> | null | undefined,
): string {
  const { number, ownVariable } = shapeOf(document, operationName ?? '')
  const common = { ...variables }
  if (ownVariable !== null) delete common[ownVariable]
  return JSON.stringify([number, scope, common])
}

function shapeOf(document: DocumentNode, name: string): Shape {
  const ofDocument = shapes.get(document) ?? new Map<string, Shape>()
  shapes.set(document, ofDocument)
  const known = ofDocument.get(name)
  if (known !== undefined) return known
  lastNumber += 1
  const operation = getOperationAST(document, name === '' ? null : name)
  const shape = { number: lastNumber, ownVariable: operation ? ownVariableOf(document, operation) : null }
  ofDocument.set(name, shape)
  return shape
}

/** Where the root field stands plainly; one that hides in a fragment begins where it begins for all who share the key. */
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
