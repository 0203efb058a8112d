import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { errorOf } from '../client/errors.ts'
import type { Operation } from '../client/index.ts'
import { useSession } from './session.tsx'

/**
 * Executes a query. The result is shared by all components that run the same query, and refetched after a
 * change (`useDo`).
 */
export function useAsk<Data, Variables>(
  operation: Operation<Data, Variables>,
  variables: Variables,
  { enabled = true, everyMs }: { enabled?: boolean; everyMs?: number } = {},
) {
  const { connection } = useSession()
  return useQuery({
    queryKey: [operation.toString(), variables],
    queryFn: () => connection.ask(operation, variables),
    enabled,
    refetchInterval: everyMs ?? false,
  })
}

/**
 * Performs an action, and then refetches every query on the page. `error` is the reason why the action failed. With
 * `awaitsQueries`, the action stays busy until the queries are answered.
 */
export function useDo<Input, Output>(action: (input: Input) => Promise<Output>, { awaitsQueries = true } = {}) {
  const queries = useQueryClient()
  const mutation = useMutation({
    mutationFn: action,
    async onSuccess() {
      const refetched = queries.invalidateQueries()
      if (awaitsQueries) await refetched
    },
  })
  return {
    run: mutation.mutateAsync,
    /** Like `run`, but for event handlers: if the action fails, `error` is set, and nothing is thrown. */
    start: (input: Input, onDone?: (output: Output) => void) =>
      mutation.mutate(input, { onSuccess: (output) => onDone?.(output) }),
    isBusy: mutation.isPending,
    error: mutation.error === null ? null : errorOf(mutation.error),
    reset: mutation.reset,
  }
}
