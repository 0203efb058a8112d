import { AsyncLocalStorage } from 'node:async_hooks'

const requesters = new AsyncLocalStorage<string>()

/** Returns the id of the requester for whom the current code works; undefined for the server's own work. */
export const requesterHere = (): string | undefined => requesters.getStore()

/** Runs `work`, and everything asynchronous that it starts, for a requester: a viewer's id, or whom a run works for. */
export function forRequester<T>(id: string, work: () => T): T {
  return requesters.run(id, work)
}
