import { AsyncLocalStorage } from 'node:async_hooks'

/** On whose behalf something is done: whatever it logs says so. */
export type LogContext = { requestId: string } | { runId: string; agentId: string }

const contexts = new AsyncLocalStorage<LogContext>()

export const logContext = (): LogContext | undefined => contexts.getStore()

/** Does the work, and all that follows from it, on behalf of a request or a run alone. */
export function onBehalfOf<T>(context: LogContext, work: () => T): T {
  return contexts.run(context, work)
}
