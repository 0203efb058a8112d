import { AsyncLocalStorage } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'

/** The request or run for which the current code runs. Each log line contains its id. */
export type LogContext = { requestId: string } | { runId: string; agentId: string }

const contexts = new AsyncLocalStorage<LogContext>()

export const logContext = (): LogContext | undefined => contexts.getStore()

/** Runs `work`, and everything asynchronous that it starts, with this log context. */
export function onBehalfOf<T>(context: LogContext, work: () => T): T {
  return contexts.run(context, work)
}

/** Returns the id of the current request, or a new id if there is no request. */
export function requestIdHere(): string {
  const context = logContext()
  return context !== undefined && 'requestId' in context ? context.requestId : randomUUID()
}
