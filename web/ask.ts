import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { errorOf } from '../client/errors.ts'
import type { Operation } from '../client/index.ts'
import { useSession } from './session.tsx'

/** What a query of the API answers, kept for the next who asks the same, and asked again after a change (`useDo`). */
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

/** Does something, and then asks everything anew that is on the page. `error` is what it was refused with. */
export function useDo<Input, Output>(action: (input: Input) => Promise<Output>) {
  const queries = useQueryClient()
  const mutation = useMutation({
    mutationFn: action,
    onSuccess: () => queries.invalidateQueries(),
  })
  return {
    run: mutation.mutateAsync,
    /** As `run`, for event handlers: a failure is in `error`. */
    start: (input: Input, onDone?: (output: Output) => void) =>
      mutation.mutate(input, { onSuccess: (output) => onDone?.(output) }),
    isBusy: mutation.isPending,
    error: mutation.error === null ? null : errorOf(mutation.error),
    reset: mutation.reset,
  }
}
