import { complexityFromQuery } from '@pothos/plugin-complexity'
import { type DocumentNode, type ExecutionArgs, type GraphQLError, getOperationAST, Kind } from 'graphql'
import { topLevelError } from './masking.ts'

/** Fields an operation may come to, each counted as often as the list it stands in may be long. */
const MOST_FIELDS = 25_000
/** Fields one within the other. */
const DEEPEST = 20
/** Fields that count as one request. */
const FIELDS_A_REQUEST = 100

/** What an operation may come to. */
export interface Cost {
  complexity: number
  depth: number
}

/** Its variables count: `first` may be one. @throws for bad variables. */
export function complexityOf({ document, operationName, schema, variableValues }: ExecutionArgs): Cost {
  const operation = getOperationAST(document, operationName)
  if (operation == null) return { complexity: 0, depth: 0 }
  const alone: DocumentNode = {
    ...document,
    definitions: document.definitions.filter((node) => node === operation || node.kind === Kind.FRAGMENT_DEFINITION),
  }
  return complexityFromQuery(alone, { schema, variables: { ...variableValues } })
}

/** As how many requests it counts. */
export function pointsOf({ complexity }: Cost): number {
  return Math.max(1, Math.round(complexity / FIELDS_A_REQUEST))
}

/** Why an operation is too much; null when it is not. */
export function excessOf({ complexity, depth }: Cost): GraphQLError | null {
  if (complexity <= MOST_FIELDS && depth <= DEEPEST) return null
  const reason =
    complexity > MOST_FIELDS
      ? `may come to ${complexity} fields, of ${MOST_FIELDS}`
      : `is ${depth} fields deep, of ${DEEPEST}`
  return topLevelError('QUERY_TOO_COMPLEX', `The operation ${reason}: ask for less at a time.`, {
    status: 400,
    spec: true,
  })
}
