import { AsyncLocalStorage } from 'node:async_hooks'

interface Requester {
  id: string
  isRun: boolean
}

const requesters = new AsyncLocalStorage<Requester | undefined>()

/** Returns the id of the requester for whom the current code runs; undefined for the server's own work. */
export const requesterHere = (): string | undefined => requesters.getStore()?.id

/** Whether the current code belongs to a run or to the server's own work. The amount of both is limited elsewhere. */
export const isBoundedHere = (): boolean => requesters.getStore()?.isRun !== false

/**
 * Runs `work`, and everything asynchronous that it starts, for a requester. `id` is a viewer's id, or the id of a run's
 * requester.
 */
export function forRequester<T>(id: string, work: () => T, { isRun = false } = {}): T {
  const here = requesters.getStore()
  // A context stays in memory as long as any part of its work waits, so an equal context is reused.
  return here?.id === id && here.isRun === isRun ? work() : requesters.run({ id, isRun }, work)
}

/**
 * Runs `work`, and everything asynchronous that it starts, as the server's own work. Use this in code that notifies
 * others or works for several callers at once. Otherwise, that code would be charged to the requester who happened to
 * trigger it.
 */
export function asOwnWork<T>(work: () => T): T {
  return requesters.getStore() === undefined ? work() : requesters.run(undefined, work)
}
