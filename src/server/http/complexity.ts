import { complexityFromQuery } from '@pothos/plugin-complexity'
import {
  type DocumentNode,
  type ExecutionArgs,
  type GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  Kind,
  type OperationDefinitionNode,
  type SelectionNode,
  type SelectionSetNode,
  type TypeNode,
} from 'graphql'
import { topLevelError } from './masking.ts'

/** Fields an operation may come to, each counted as often as the list it stands in may be long. */
const MOST_FIELDS = 25_000
/** Fields one within the other. */
const DEEPEST = 20
/** Fields that count as one request. */
const FIELDS_A_REQUEST = 100

/** Introspection fields that an operation may select, fragments expanded: a client's introspection query has some 150. */
const MOST_INTROSPECTION = 300
/** What an introspection field counts as: most of them stand in lists of types. */
const FIELDS_OF_INTROSPECTION = 10

/** What an operation may come to. */
export interface Cost {
  complexity: number
  depth: number
  /** Introspection fields that it selects. */
  introspection: number
}

/** What operations come to whatever their variables say. */
const known = new WeakMap<OperationDefinitionNode, Cost>()

/** Its variables count: `first` may be one. @throws for bad variables. */
export function complexityOf({ document, operationName, schema, variableValues }: ExecutionArgs): Cost {
  const operation = getOperationAST(document, operationName)
  if (operation == null) return { complexity: 0, depth: 0, introspection: 0 }
  const saysNothing = hasTextsOnly(operation, variableValues ?? {})
  const cost = (saysNothing && known.get(operation)) || computed(operation, document, schema, variableValues)
  if (saysNothing) known.set(operation, cost)
  return cost
}

function computed(
  operation: OperationDefinitionNode,
  document: DocumentNode,
  schema: GraphQLSchema,
  variableValues: ExecutionArgs['variableValues'],
): Cost {
  const alone: DocumentNode = {
    ...document,
    definitions: document.definitions.filter((node) => node === operation || node.kind === Kind.FRAGMENT_DEFINITION),
  }
  const introspection = introspectionOf(operation, document)
  const { complexity, depth } =
    introspection > MOST_INTROSPECTION
      ? { complexity: 0, depth: 0 }
      : complexityFromQuery(alone, { schema, variables: { ...variableValues } })
  return { complexity: complexity + introspection * FIELDS_OF_INTROSPECTION, depth, introspection }
}

/** Counts the fields within `__schema` and `__type`, those of a fragment once for each place that it stands in. */
function introspectionOf(operation: OperationDefinitionNode, document: DocumentNode): number {
  const fragments = new Map(
    document.definitions.flatMap((node) =>
      node.kind === Kind.FRAGMENT_DEFINITION ? [[node.name.value, node.selectionSet] as const] : [],
    ),
  )
  const countOfFragment = new Map<string, number>()

  function countOf(set: SelectionSetNode | undefined, isInside: boolean): number {
    return (set?.selections ?? []).reduce((sum, selection) => sum + countOfSelection(selection, isInside), 0)
  }

  function countOfSelection(selection: SelectionNode, isInside: boolean): number {
    if (selection.kind === Kind.INLINE_FRAGMENT) return countOf(selection.selectionSet, isInside)
    const name = selection.name.value
    if (selection.kind === Kind.FIELD) {
      const isHere = isInside || name === '__schema' || name === '__type'
      return isHere ? 1 + countOf(selection.selectionSet, true) : 0
    }
    const key = `${name} ${isInside}`
    const known = countOfFragment.get(key) ?? countOf(fragments.get(name), isInside)
    countOfFragment.set(key, known)
    return known
  }

  return countOf(operation.selectionSet, false)
}

/** Whether each of its variables is a text, and given: a cost depends on numbers, on how many there are, and on what is left out. */
function hasTextsOnly({ variableDefinitions = [] }: OperationDefinitionNode, values: Record<string, unknown>): boolean {
  return variableDefinitions.every(
    ({ type, variable }) => isText(type) && typeof values[variable.name.value] === 'string',
  )
}

function isText(type: TypeNode): boolean {
  if (type.kind === Kind.NON_NULL_TYPE) return isText(type.type)
  return type.kind === Kind.NAMED_TYPE && (type.name.value === 'ID' || type.name.value === 'String')
}

/** As how many requests it counts. */
export function pointsOf({ complexity }: Pick<Cost, 'complexity'>): number {
  return Math.max(1, Math.round(complexity / FIELDS_A_REQUEST))
}

/** Of the fields that operations at work may have together, a share for each field: its text may be long. */
const WEIGHT_OF_FIELD = 50
/** What a single operation weighs at most for the length of its texts, which the size of its response bounds. */
const MOST_WEIGHT_OF_TEXTS = 6250

/** What an operation weighs while it is at work (see work.ts): its fields, or what the texts in them may come to. */
export function weightOf({ complexity }: Cost): number {
  return Math.max(complexity, Math.min(complexity * WEIGHT_OF_FIELD, MOST_WEIGHT_OF_TEXTS))
}

/** Why an operation is too much; null when it is not. */
export function excessOf({ complexity, depth, introspection }: Cost): GraphQLError | null {
  const reason = reasonOf({ complexity, depth, introspection })
  if (reason === null) return null
  return topLevelError('QUERY_TOO_COMPLEX', `The operation ${reason}: select fewer fields, or smaller pages.`, {
    status: 400,
    spec: true,
  })
}

function reasonOf({ complexity, depth, introspection }: Cost): string | null {
  if (introspection > MOST_INTROSPECTION) return `selects more than ${MOST_INTROSPECTION} introspection fields`
  if (complexity > MOST_FIELDS) return `may return ${complexity} fields; the limit is ${MOST_FIELDS}`
  return depth > DEEPEST ? `is ${depth} fields deep; the limit is ${DEEPEST}` : null
}
