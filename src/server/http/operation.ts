import { type ExecutionArgs, type ExecutionResult, type GraphQLError, getOperationAST } from 'graphql'
import { type MaskError, topLevelError } from '../../graphql/masking.ts'
import type { Graphql, OperationContext } from './graphql.ts'

export type Result = ExecutionResult | AsyncIterable<ExecutionResult>

/** A GraphQL request. */
export interface OperationRequest {
  query: string
  operationName?: string | null | undefined
  variables?: Record<string, unknown> | null | undefined
}

/** An operation that has been parsed and validated. */
export interface Operation extends ExecutionArgs {
  isSubscription: boolean
  /** Executes the operation through the pipeline that HTTP uses. */
  run(): Promise<Result>
}

/** Thrown for an operation that failed as a whole. */
export class OperationFailed extends Error {
  readonly errors: readonly GraphQLError[]
  constructor(errors: readonly GraphQLError[]) {
    super('the operation failed')
    this.errors = errors
  }
}

/**
 * Parses and validates an operation.
 * @throws OperationFailed, or the error of the pipeline, if the operation cannot be executed
 */
export function prepareOperation(graphql: Graphql, context: OperationContext, request: OperationRequest): Operation {
  const { query, variables } = request
  const operationName = request.operationName || undefined
  const params = { query, operationName, variables: variables ?? undefined }
  let begun: AsyncIterable<never> | null = null
  const onBegun = (iteration: AsyncIterable<never>) => {
    begun = iteration
  }
  const enveloped = graphql.getEnveloped({ ...context, onBegun, params } as never)
  const { schema } = enveloped
  const document = enveloped.parse(query)
  const errors = enveloped.validate(schema, document)
  if (errors.length > 0) throw new OperationFailed(errors)
  const operation = getOperationAST(document, operationName)
  if (operation == null)
    throw topLevelError(
      'BAD_USER_INPUT',
      'No operation is selected. Set operationName to the name of an operation in the document.',
    )
  const isSubscription = operation.operation === 'subscription'
  const args: ExecutionArgs = { schema, document, operationName, variableValues: variables }
  return {
    ...args,
    isSubscription,
    async run() {
      const contextValue = await enveloped.contextFactory()
      const result = await (isSubscription ? enveloped.subscribe : enveloped.execute)({ ...args, contextValue })
      return begun ?? result
    },
  }
}

/** Returns the masked errors of an operation that failed as a whole. */
export function errorsOf(error: unknown, maskError: MaskError): GraphQLError[] {
  return (error instanceof OperationFailed ? error.errors : [error]).map(maskError)
}
