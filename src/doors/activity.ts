import { createDeferred } from '../lib/async.ts'
import type { Caller } from './exchange.ts'
import { ACTIVITY } from './operations.ts'

/** Reports when the status of a run in a space changes. */
export interface Activity {
  /** Calls the listener after changes. Returns a function that stops it. */
  listen(caller: Caller, spaceId: string, listener: () => void): () => void
}

interface Watch {
  /** The callers by listener, in the order in which they came. */
  listeners: Map<() => void, Caller>
  isOpen: boolean
}

/**
 * Watches each space once for all streams of this process, because a separate subscription would take most of a
 * stream's memory. Listeners are only notified of a change, and read the state themselves.
 */
export function createActivity(): Activity {
  const watches = new Map<string, Watch>()

  /** Watches a space until the caller leaves, loses access, or no listener is left. */
  async function watchAs(caller: Caller, spaceId: string, { listeners }: Watch): Promise<void> {
    const { promise: over, resolve } = createDeferred()
    const onEvent = () => {
      if (listeners.size === 0) resolve()
      for (const listener of [...listeners.keys()]) listener()
    }
    // An error is ignored: the stream of this caller ends for the same reason.
    const end = await caller.follow(ACTIVITY, { spaceId }, { onEvent, onEnd: () => resolve() }).catch(() => null)
    if (end === null) return
    caller.signal.addEventListener('abort', () => resolve(), { once: true })
    if (!caller.signal.aborted) await over
    end()
  }

  /** Watches a space on behalf of one caller after another, until all callers have left. */
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
