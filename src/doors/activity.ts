import { createDeferred } from '../lib/async.ts'
import type { Caller } from './exchange.ts'
import { ACTIVITY } from './operations.ts'

/** Reports when the status of a run in a space changes. */
export interface Activity {
  /** Calls the listener after changes. Returns a function that stops it. */
  listen(caller: Caller, spaceId: string, listener: () => void): () => void
}

interface Watch {
  /** The callers that may watch the space, in the order of their arrival. */
  listeners: Map<() => void, Caller>
  isOpen: boolean
}

/**
 * Watches each space once for all streams of this process, because a subscription of its own for each would take most of a
 * stream's memory. Listeners are only notified that something has changed, and read the state themselves.
 */
export function createActivity(): Activity {
  const watches = new Map<string, Watch>()

  /** Watches until the caller leaves, may no longer watch, or nobody listens. */
  async function watchAs(caller: Caller, spaceId: string, { listeners }: Watch): Promise<void> {
    const { promise: over, resolve } = createDeferred()
    const onEvent = () => {
      if (listeners.size === 0) resolve()
      for (const listener of [...listeners.keys()]) listener()
    }
    // The stream of this caller ends for the same reason.
    const end = await caller.follow(ACTIVITY, { spaceId }, { onEvent, onEnd: () => resolve() }).catch(() => null)
    if (end === null) return
    caller.signal.addEventListener('abort', () => resolve(), { once: true })
    if (!caller.signal.aborted) await over
    end()
  }

  /** Watches on behalf of one caller after the other, until all have left. */
  async function keepWatching(spaceId: string, watch: Watch): Promise<void> {
    const tried = new Set<Caller>()
    const nextCaller = () => [...watch.listeners.values()].find((one) => !tried.has(one))
    for (let caller = nextCaller(); caller !== undefined; caller = nextCaller()) {
      tried.add(caller)
      await watchAs(caller, spaceId, watch)
    }
    watch.isOpen = false
    if (watch.listeners.size === 0 && watches.get(spaceId) === watch) watches.delete(spaceId)
  }

  return {
    listen(caller, spaceId, listener) {
      const watch = watches.get(spaceId) ?? { listeners: new Map(), isOpen: false }
      watches.set(spaceId, watch)
      watch.listeners.set(listener, caller)
      if (!watch.isOpen) {
        watch.isOpen = true
        void keepWatching(spaceId, watch)
      }
      return () => {
        watch.listeners.delete(listener)
        if (watch.listeners.size === 0 && watches.get(spaceId) === watch) watches.delete(spaceId)
      }
    },
  }
}
