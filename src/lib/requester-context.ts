import { AsyncLocalStorage } from 'node:async_hooks'

const requesters = new AsyncLocalStorage<string>()

/** Returns the id of the requester on whose behalf the current code runs; undefined for the server's own work. */
export const requesterHere = (): string | undefined => requesters.getStore()

/** Runs `work`, and everything asynchronous that it starts, for a requester: a viewer's id, or the requester of a run. */
export function forRequester<T>(id: string, work: () => T): T {
  // A context takes memory as long as anything of its work waits.
  return requesters.getStore() === id ? work() : requesters.run(id, work)
}
