import { createDeferred, sleep } from '../lib/async.ts'
import type { Signals } from '../realtime/signals.ts'
import { runChannel } from '../realtime/topics.ts'

/** How long a stop waits for the worker to say that it let go: what is written is refused from the first moment on anyway. */
const LONGEST_GOODBYE_MS = 1000

/**
 * Stops a run wherever it executes: writes the stop by `write`, then tells the worker, which aborts the model and its tools,
 * notes what the unfinished step cost, and answers `stopped`.
 * Returns what `write` returned; when that is null (it had ended) nobody is told.
 */
export async function confirmStopped<T extends { startedAt: Date | null; jobId: string | null }>(
  signals: Signals,
  runId: string,
  write: () => Promise<T | null>,
): Promise<T | null> {
  const stopped = createDeferred()
  const unsubscribe = await signals.subscribe(runChannel(runId), (payload) => {
    if (payload.type === 'stopped') stopped.resolve()
  })
  try {
    const run = await write()
    if (run === null) return null
    await signals.publish(runChannel(runId), { type: 'stop' })
    if (run.jobId !== null) await Promise.race([stopped.promise, sleep(LONGEST_GOODBYE_MS)])
    return run
  } finally {
    unsubscribe()
  }
}
