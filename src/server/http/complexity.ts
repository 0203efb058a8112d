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
import { topLevelError } from '../../graphql/masking.ts'

/**
 * The maximum number of fields in a response. A field within a list counts once for each item that the list may
 * have.
 */
const MOST_FIELDS = 25_000
/** The maximum nesting of fields. */
const DEEPEST = 20
/** This many fields count as one request. */
const FIELDS_A_REQUEST = 100

/**
 * The maximum number of introspection fields after fragments have been expanded. A typical introspection query of a
 * client has about 150.
 */
const MOST_INTROSPECTION = 300
/**
 * Each introspection field counts as this many fields. The number is greater than one because most introspection
 * fields are in lists of types.
 */
const FIELDS_OF_INTROSPECTION = 10

/** The estimated cost of an operation. */
export interface Cost {
  complexity: number
  depth: number
  /** The number of selected introspection fields. */
  introspection: number
}

/** Caches the cost of operations whose variables do not affect the cost. */
const known = new WeakMap<OperationDefinitionNode, Cost>()

/**
 * Returns the cost of an operation. The cost depends on the variables, because `first` may be a variable.
 * @throws if variables are invalid
 */
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

/** Counts the fields within `__schema` and `__type`. The fields of a fragment count once per use. */
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

/** Whether all variables are strings and have values. Only numbers, lists and missing variables affect the cost. */
function hasTextsOnly({ variableDefinitions = [] }: OperationDefinitionNode, values: Record<string, unknown>): boolean {
  return variableDefinitions.every(
    ({ type, variable }) => isText(type) && typeof values[variable.name.value] === 'string',
  )
}

function isText(type: TypeNode): boolean {
  if (type.kind === Kind.NON_NULL_TYPE) return isText(type.type)
  return type.kind === Kind.NAMED_TYPE && (type.name.value === 'ID' || type.name.value === 'String')
}

/** Returns how many requests the operation counts as. */
export function pointsOf({ complexity }: Pick<Cost, 'complexity'>): number {
  return Math.max(1, Math.round(complexity / FIELDS_A_REQUEST))
}

/** The weight of each field while an operation runs. Fields are weighted because their text may be long. */
const WEIGHT_OF_FIELD = 50
/**
 * The maximum weight of an operation due to the length of its text. There is a maximum because the size of the
 * response is limited too.
 */
const MOST_WEIGHT_OF_TEXTS = 6250

/**
 * Returns the weight of a running operation (see work.ts): the number of its fields or an estimate for the length
 * of their text, whichever is greater.
 */
export function weightOf({ complexity }: Cost): number {
  return Math.max(complexity, Math.min(complexity * WEIGHT_OF_FIELD, MOST_WEIGHT_OF_TEXTS))
}

/** Returns an error if the operation exceeds a limit; otherwise null. */
export function excessOf({ complexity, depth, introspection }: Cost): GraphQLError | null {
  const reason = reasonOf({ complexity, depth, introspection })
  if (reason === null) return null
  return topLevelError('QUERY_TOO_COMPLEX', `The operation ${reason}. Select fewer fields, or smaller pages.`, {
    status: 400,
    spec: true,
  })
}

function reasonOf({ complexity, depth, introspection }: Cost): string | null {
  if (introspection > MOST_INTROSPECTION) return `selects more than ${MOST_INTROSPECTION} introspection fields`
  if (complexity > MOST_FIELDS) return `may return ${complexity} fields; the limit is ${MOST_FIELDS}`
  return depth > DEEPEST ? `is ${depth} fields deep; the limit is ${DEEPEST}` : null
}
