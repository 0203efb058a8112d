import { createDeferred } from '../lib/async.ts'
import type { Caller } from './exchange.ts'
import { ACTIVITY } from './operations.ts'

/** Reports when the status of any run in a space changes. */
export interface Activity {
  /** Calls the listener after changes. Returns a function that removes the listener. */
  listen(caller: Caller, spaceId: string, listener: () => void): () => void
}

interface Watch {
  /** The listeners, each with its caller, in the order in which they were added. */
  listeners: Map<() => void, Caller>
  isOpen: boolean
}

/**
 * Watches each space once for all streams of this process, because a separate subscription for each stream would
 * account for most of the stream's memory. Listeners are only notified of a change, and must read the state
 * themselves.
 */
export function createActivity(): Activity {
  const watches = new Map<string, Watch>()

  /** Watches a space until the caller disconnects or loses access, or until no listener is left. */
  async function watchAs(caller: Caller, spaceId: string, { listeners }: Watch): Promise<void> {
    const { promise: over, resolve } = createDeferred()
    const onEvent = () => {
      if (listeners.size === 0) resolve()
      for (const listener of [...listeners.keys()]) listener()
    }
    // An error is ignored here, because the same error ends this caller's stream.
    const end = await caller.follow(ACTIVITY, { spaceId }, { onEvent, onEnd: () => resolve() }).catch(() => null)
    if (end === null) return
    caller.signal.addEventListener('abort', () => resolve(), { once: true })
    if (!caller.signal.aborted) await over
    end()
  }

  /** Watches a space on behalf of one caller after another, until no caller is left. */
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
