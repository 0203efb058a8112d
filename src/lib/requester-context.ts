import { AsyncLocalStorage } from 'node:async_hooks'

const requesters = new AsyncLocalStorage<string>()

/** Returns the id of the requester on whose behalf the current code runs; undefined for the server's own work. */
export const requesterHere = (): string | undefined => requesters.getStore()

/** Runs `work`, and everything asynchronous that it starts, for a requester: a viewer's id, or the requester of a run. */
export function forRequester<T>(id: string, work: () => T): T {
  return requesters.run(id, work)
}
