import { createDeferred, sleep } from '../lib/async.ts'
import type { Signals } from '../realtime/signals.ts'
import { RUNS_CHANNEL, type RunSignal } from '../realtime/topics.ts'

/** How long a stop waits for a worker that seems to live to say that it let go: what is written is refused from the first moment on anyway. */
const LONGEST_GOODBYE_MS = 1000
/** So many stops are remembered, for runs whose claim has yet to come back to this process. */
const MOST_HEARD = 1000

/** How a stop reaches the worker that executes the run, wherever that is. One subscription a process serves all runs. */
export interface StopSignals {
  /** From its return on no stop is missed: to be called before the first claim. */
  subscribe(): Promise<void>
  /** Calls `stop` when the run is stopped, at once where that was heard before; comes back with the way to end it. */
  listen(runId: string, stop: () => void): () => void
  /** The worker has let go of a stopped run. */
  confirm(runId: string): Promise<void>
  /**
   * Ends a run: writes that by `write`, then tells the worker, which aborts the model and its tools, notes what the
   * unfinished step cost, and confirms. Returns what `write` returned; when that is null (it had ended) nobody is told.
   */
  stop<T extends { leaseUntil: Date | null }>(runId: string, write: () => Promise<T | null>): Promise<T | null>
}

export function createStopSignals(signals: Signals): StopSignals {
  const listeners = { stop: new Map<string, () => void>(), stopped: new Map<string, () => void>() }
  const heard = new Set<string>()
  let subscribed: Promise<unknown> | null = null

  function hear({ type, runId }: RunSignal): void {
    listeners[type].get(runId)?.()
    if (type !== 'stop') return
    heard.add(runId)
    for (const oldest of heard) {
      if (heard.size <= MOST_HEARD) break
      heard.delete(oldest)
    }
  }

  /** Subscribes at the first use; a subscription that failed is tried again at the next. */
  async function subscribe(): Promise<void> {
    subscribed ??= signals.subscribe(RUNS_CHANNEL, (payload) => hear(payload as RunSignal))
    await subscribed.catch((error) => {
      subscribed = null
      throw error
    })
  }

  return {
    subscribe,
    listen(runId, stop) {
      listeners.stop.set(runId, stop)
      if (heard.has(runId)) stop()
      return () => listeners.stop.delete(runId)
    },
    confirm: (runId) => signals.publish(RUNS_CHANNEL, { type: 'stopped', runId }),
    async stop(runId, write) {
      await subscribe()
      const stopped = createDeferred()
      listeners.stopped.set(runId, stopped.resolve)
      try {
        const run = await write()
        if (run === null) return null
        await signals.publish(RUNS_CHANNEL, { type: 'stop', runId })
        if (Number(run.leaseUntil) > Date.now()) await Promise.race([stopped.promise, sleep(LONGEST_GOODBYE_MS)])
        return run
      } finally {
        listeners.stopped.delete(runId)
      }
    },
  }
}
