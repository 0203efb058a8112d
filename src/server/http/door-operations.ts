import type { ExecutionResult, GraphQLError } from 'graphql'
import { type Caller, OperationError, type Operations, type Variables } from '../../doors/tasks/operations.ts'
import { formatError, type MaskError } from '../../graphql/masking.ts'
import type { Graphql } from './graphql.ts'
import { errorsOf, prepareOperation } from './operation.ts'

interface Serialized extends ExecutionResult {
  stringify?(): string
}

/** Runs the operations of a door through the pipeline of GraphQL. */
export function createDoorOperations(graphql: Graphql, maskError: MaskError): Operations {
  const failureOf = (errors: readonly GraphQLError[]) => {
    const [first] = errors
    const { extensions } = formatError(maskError(first))
    const { code, retryAfterMs } = extensions as { code?: string; retryAfterMs?: number }
    return new OperationError(code ?? 'INTERNAL_SERVER_ERROR', maskError(first).message, retryAfterMs ?? null)
  }
  const failure = (error: unknown) => (error instanceof OperationError ? error : failureOf(errorsOf(error, maskError)))

  async function begin({ viewer, askedOrigin, signal, response }: Caller, query: string, variables: Variables) {
    const context = { viewer, askedOrigin, signal, res: response, onSlow: () => void response.destroy() }
    return prepareOperation(graphql, context, { query, variables }).run()
  }

  return {
    async run<T>(caller: Caller, document: string, variables: Variables) {
      const result = await begin(caller, document, variables).catch((error) => {
        throw failure(error)
      })
      const { data, errors } = result as ExecutionResult
      if (errors !== undefined && errors.length > 0) throw failureOf(errors)
      return data as T
    },

    async follow<T>(
      caller: Caller,
      document: string,
      variables: Variables,
      { onEvent, onEnd }: { onEvent(data: T): void; onEnd(error: OperationError | null): void },
    ) {
      const result = await begin(caller, document, variables).catch((error) => {
        throw failure(error)
      })
      if (!(Symbol.asyncIterator in result)) throw failureOf((result as ExecutionResult).errors ?? [])
      const iterator = result[Symbol.asyncIterator]()
      let isOver = false
      const deliver = async () => {
        for (let next = await iterator.next(); !next.done && !isOver; next = await iterator.next()) {
          const { data, errors } = readable(next.value)
          if (errors !== undefined && errors.length > 0) throw failureOf(errors)
          if (data != null && !isOver) onEvent(data as T)
        }
      }
      const end = () => {
        if (isOver) return
        isOver = true
        caller.signal.removeEventListener('abort', end)
        void Promise.resolve(iterator.return?.()).catch(() => {})
      }
      const tellEnd = (error: OperationError | null) => {
        if (isOver) return
        end()
        onEnd(error)
      }
      caller.signal.addEventListener('abort', end)
      void deliver().then(
        () => tellEnd(null),
        (error: unknown) => tellEnd(failure(error)),
      )
      return end
    },
  }
}

/** The events of a subscription are serialized already; errors are not. */
function readable(result: Serialized): ExecutionResult {
  if (result.errors !== undefined || result.stringify === undefined) return result
  return JSON.parse(result.stringify()) as ExecutionResult
}
