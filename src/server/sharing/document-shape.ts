import { type DocumentNode, type FieldNode, getOperationAST, Kind, type OperationDefinitionNode, visit } from 'graphql'
import type { Viewer } from '../../access/viewer.ts'

/** What must be the same for two subscriptions by one operation to be told of the same events in the same way. */
export interface OperationShape {
  /** Everything that its subscribers must have in common, as text. */
  keyOf(viewer: Viewer, variables: Record<string, unknown> | null | undefined): string
}

const SHARED_FIELD = 'spaceMessages'
/** Where a subscriber begins is its own affair. */
const OWN_ARGUMENT = 'after'

let lastNumber = 0
/** By document as it was parsed: a cached one is looked at once. */
const shapes = new WeakMap<DocumentNode, Map<string, OperationShape | null>>()

/** The shape of a valid operation; null where it is none that subscribers share. */
export function shapeOf(document: DocumentNode, operationName: string | null | undefined): OperationShape | null {
  const ofDocument = shapes.get(document) ?? new Map<string, OperationShape | null>()
  shapes.set(document, ofDocument)
  const name = operationName ?? ''
  const known = ofDocument.get(name)
  if (known !== undefined) return known
  const shape = readShape(document, operationName)
  ofDocument.set(name, shape)
  return shape
}

function readShape(document: DocumentNode, operationName: string | null | undefined): OperationShape | null {
  const operation = getOperationAST(document, operationName)
  const root = operation && rootFieldOf(operation)
  if (operation == null || root == null) return null
  lastNumber += 1
  const number = lastNumber
  const ownVariable = ownVariableOf(document, root)
  return {
    keyOf({ scope }, variables) {
      const common = { ...variables }
      if (ownVariable !== null) delete common[ownVariable]
      return JSON.stringify([number, scope, common])
    },
  }
}

/** The operation's one field, where it is the shared one and stands there plainly. */
function rootFieldOf({ selectionSet: { selections }, directives }: OperationDefinitionNode): FieldNode | null {
  const [first] = selections
  const isPlain = selections.length === 1 && first?.kind === Kind.FIELD && !first.directives?.length
  return isPlain && !directives?.length && first.name.value === SHARED_FIELD ? first : null
}

/** The variable that says where to begin, and says nothing else. */
function ownVariableOf(document: DocumentNode, root: FieldNode): string | null {
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
