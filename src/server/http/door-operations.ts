import type { ExecutionResult, GraphQLError } from 'graphql'
import type { Conversing } from '../../doors/conversing.ts'
import { type Caller, OperationError, type Operations, type Variables } from '../../doors/tasks/operations.ts'
import { formatError, type MaskError } from '../../graphql/masking.ts'
import { DomainError, RateLimitedError } from '../../lib/errors.ts'
import type { Sending } from '../responses-in-flight.ts'
import type { Graphql } from './graphql.ts'
import { errorsOf, prepareOperation } from './operation.ts'

interface Serialized extends ExecutionResult {
  stringify?(): string
}

/** Runs the operations of a door through the pipeline of GraphQL. */
export function createDoorOperations(
  graphql: Graphql,
  maskError: MaskError,
  conversing: Pick<Conversing, 'open'>,
): Operations {
  const failureOf = (errors: readonly GraphQLError[]) => {
    const [first] = errors
    const { extensions } = formatError(maskError(first))
    const { code, retryAfterMs } = extensions as { code?: string; retryAfterMs?: number }
    return new OperationError(code ?? 'INTERNAL_SERVER_ERROR', maskError(first).message, retryAfterMs ?? null)
  }
  const failure = (error: unknown) => {
    if (error instanceof OperationError) return error
    if (error instanceof DomainError)
      return new OperationError(
        error.code,
        error.message,
        error instanceof RateLimitedError ? error.retryAfterMs : null,
      )
    return failureOf(errorsOf(error, maskError))
  }

  async function begin({ viewer, askedOrigin, signal, response }: Caller, query: string, variables: Variables) {
    const onSlow = () => void response.destroy()
    const { sending, release } = createSending(onSlow)
    const context = { viewer, askedOrigin, signal, res: response, onSlow, sending }
    try {
      return await prepareOperation(graphql, context, { query, variables }).run()
    } finally {
      release()
    }
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

    async converse(caller, input) {
      try {
        return (await conversing.open(caller, input)).spaceId
      } catch (error) {
        throw failure(error)
      }
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

/**
 * The result of an operation counts as in flight until the door has taken it, not until the response is closed: a stream
 * runs many operations.
 */
function createSending(cutOff: () => void): { sending: Sending; release: () => void } {
  let release = () => {}
  const onSent = (listener: () => void) => {
    release = listener
  }
  return { sending: { onSent, cutOff }, release: () => release() }
}

/** The events of a subscription are serialized already; errors are not. */
function readable(result: Serialized): ExecutionResult {
  if (result.errors !== undefined || result.stringify === undefined) return result
  return JSON.parse(result.stringify()) as ExecutionResult
}
