import { complexityFromQuery } from '@pothos/plugin-complexity'
import { type DocumentNode, type ExecutionArgs, type GraphQLError, getOperationAST, Kind } from 'graphql'
import type { Plugin } from 'graphql-yoga'
import { type MaskError, topLevelError } from './masking.ts'

/** Fields an operation may come to, each counted as often as the list it stands in may be long. */
const MOST_FIELDS = 25_000
/** Fields one within the other. */
const DEEPEST = 20

/** Why an operation is too much; null when it is not. Its variables count: `first` may be one. @throws for bad variables. */
function excessOf({ document, operationName, schema, variableValues }: ExecutionArgs): GraphQLError | null {
  const operation = getOperationAST(document, operationName)
  if (operation == null) return null
  const alone: DocumentNode = {
    ...document,
    definitions: document.definitions.filter((node) => node === operation || node.kind === Kind.FRAGMENT_DEFINITION),
  }
  const { complexity, depth } = complexityFromQuery(alone, { schema, variables: { ...variableValues } })
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

interface Hook {
  args: unknown
  setResultAndStopExecution(result: { errors: readonly GraphQLError[] }): void
}

/** Refuses operations that would cost too much, before anything of them runs. */
export function useComplexity(maskError: MaskError): Plugin {
  const check = ({ args, setResultAndStopExecution }: Hook) => {
    try {
      const excess = excessOf(args as ExecutionArgs)
      if (excess !== null) setResultAndStopExecution({ errors: [excess] })
    } catch (error) {
      setResultAndStopExecution({ errors: [maskError(error)] })
    }
  }
  return { onExecute: check as never, onSubscribe: check as never }
}
