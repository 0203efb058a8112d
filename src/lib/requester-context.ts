import { AsyncLocalStorage } from 'node:async_hooks'

interface Requester {
  id: string
  isRun: boolean
}

const requesters = new AsyncLocalStorage<Requester | undefined>()

/** Returns the id of the requester on whose behalf the current code runs; undefined for the server's own work. */
export const requesterHere = (): string | undefined => requesters.getStore()?.id

/** Whether the current code executes a run, or belongs to the server's own work: both are bounded in number. */
export const isBoundedHere = (): boolean => requesters.getStore()?.isRun !== false

/** Runs `work`, and everything asynchronous that it starts, for a requester: a viewer's id, or the requester of a run. */
export function forRequester<T>(id: string, work: () => T, { isRun = false } = {}): T {
  const here = requesters.getStore()
  // A context stays in memory as long as any part of its work waits, so an equal context is reused.
  return here?.id === id && here.isRun === isRun ? work() : requesters.run({ id, isRun }, work)
}

/**
 * Runs `work`, and everything asynchronous that it starts, as the server's own work. Code that notifies others, or that
 * works for several callers at once, would otherwise work for the requester who happened to cause it.
 */
export function asOwnWork<T>(work: () => T): T {
  return requesters.getStore() === undefined ? work() : requesters.run(undefined, work)
}
