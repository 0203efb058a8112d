import type { Signals } from '../broker/signals.ts'
import { RUNS_CHANNEL, type RunSignal } from '../broker/topics.ts'
import { createDeferred, sleep } from '../lib/async.ts'

/**
 * How long `stop` waits for the worker's acknowledgement. Stops are correct even without one, because the worker's
 * writes are fenced.
 */
const LONGEST_GOODBYE_MS = 1000
/** How many stops are remembered, for runs whose claim has not reached this process yet. */
const MOST_HEARD = 1000

/** Sends a stop to the worker that executes a run, in any process. One subscription per process serves all runs. */
export interface StopSignals {
  /** Subscribes to stops, so that no later stop is missed. Call this before the first claim. */
  subscribe(): Promise<void>
  /**
   * Calls `stop` when the run is stopped, or immediately if the stop has already been received.
   * @returns a function that unsubscribes
   */
  listen(runId: string, stop: () => void): () => void
  /** Acknowledges that the worker no longer executes a stopped run. */
  confirm(runId: string): Promise<void>
  /**
   * Ends a run with `write`, and then signals its worker. The worker aborts the model and the tools, records the usage
   * of the unfinished step, and acknowledges the stop.
   * @returns the result of `write`; if it is null because the run had already ended, no signal is sent
   */
  stop<T extends { leaseUntil: Date | null }>(runId: string, write: () => Promise<T | null>): Promise<T | null>
}

export function createStopSignals(signals: Signals): StopSignals {
  const listeners = { stop: createListeners(), stopped: createListeners() }
  const heard = new Set<string>()
  let subscribed: Promise<unknown> | null = null

  function hear({ type, runId }: RunSignal): void {
    listeners[type].call(runId)
    if (type !== 'stop') return
    heard.add(runId)
    for (const oldest of heard) {
      if (heard.size <= MOST_HEARD) break
      heard.delete(oldest)
    }
  }

  /** Subscribes on the first call. If that fails, the next call tries again. */
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
      const end = listeners.stop.add(runId, stop)
      if (heard.has(runId)) stop()
      return end
    },
    confirm: (runId) => signals.publish(RUNS_CHANNEL, { type: 'stopped', runId }),
    async stop(runId, write) {
      await subscribe()
      const stopped = createDeferred()
      const end = listeners.stopped.add(runId, stopped.resolve)
      try {
        const run = await write()
        if (run === null) return null
        await signals.publish(RUNS_CHANNEL, { type: 'stop', runId })
        if (Number(run.leaseUntil) > Date.now()) await Promise.race([stopped.promise, sleep(LONGEST_GOODBYE_MS)])
        return run
      } finally {
        end()
      }
    },
  }
}

/**
 * Creates a registry of listeners by run: the run's worker, jobs that execute its approved calls, and the callers that
 * stop the run.
 */
function createListeners() {
  const ofRun = new Map<string, Set<() => void>>()
  return {
    /** @returns a function that removes the listener */
    add(runId: string, listener: () => void): () => void {
      const all = ofRun.get(runId) ?? new Set()
      // Each listener is a separate object, because a caller can add the same function twice.
      const own = () => listener()
      ofRun.set(runId, all.add(own))
      return () => {
        all.delete(own)
        if (all.size === 0 && ofRun.get(runId) === all) ofRun.delete(runId)
      }
    },
    call(runId: string): void {
      for (const listener of [...(ofRun.get(runId) ?? [])]) listener()
    },
  }
}
