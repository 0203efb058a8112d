import { createDeferred, sleep } from '../lib/async.ts'
import type { Signals } from '../realtime/signals.ts'
import { RUNS_CHANNEL, type RunSignal } from '../realtime/topics.ts'

/** How long a stop waits for the worker to say that it let go: what is written is refused from the first moment on anyway. */
const LONGEST_GOODBYE_MS = 1000

/** How a stop reaches the worker that executes the run, wherever that is. One subscription a process serves all runs. */
export interface StopSignals {
  /** Calls `stop` when the run is stopped; comes back, once that is sure, with the way to end it. */
  listen(runId: string, stop: () => void): Promise<() => void>
  /** The worker has let go of a stopped run. */
  confirm(runId: string): Promise<void>
  /**
   * Stops a run: writes the stop by `write`, then tells the worker, which aborts the model and its tools, notes what the
   * unfinished step cost, and confirms. Returns what `write` returned; when that is null (it had ended) nobody is told.
   */
  stop<T extends { jobId: string | null }>(runId: string, write: () => Promise<T | null>): Promise<T | null>
}

export function createStopSignals(signals: Signals): StopSignals {
  const listeners = { stop: new Map<string, () => void>(), stopped: new Map<string, () => void>() }
  let subscribed: Promise<unknown> | null = null

  /** Subscribes at the first use; a subscription that failed is tried again at the next. */
  async function ready(): Promise<void> {
    subscribed ??= signals.subscribe(RUNS_CHANNEL, (payload) => {
      const { type, runId } = payload as RunSignal
      listeners[type].get(runId)?.()
    })
    await subscribed.catch((error) => {
      subscribed = null
      throw error
    })
  }

  return {
    async listen(runId, stop) {
      await ready()
      listeners.stop.set(runId, stop)
      return () => listeners.stop.delete(runId)
    },
    confirm: (runId) => signals.publish(RUNS_CHANNEL, { type: 'stopped', runId }),
    async stop(runId, write) {
      await ready()
      const stopped = createDeferred()
      listeners.stopped.set(runId, stopped.resolve)
      try {
        const run = await write()
        if (run === null) return null
        await signals.publish(RUNS_CHANNEL, { type: 'stop', runId })
        if (run.jobId !== null) await Promise.race([stopped.promise, sleep(LONGEST_GOODBYE_MS)])
        return run
      } finally {
        listeners.stopped.delete(runId)
      }
    },
  }
}
