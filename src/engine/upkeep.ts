import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import type { Due } from '../runs/due.ts'

/** The periodic work of a worker. The worker does it even if it has no free slots. */
export interface Upkeep {
  close(): Promise<void>
}

const LOOK_MS = 1000
const SWEEP_MS = 10_000

/**
 * Polls for due work once a second, or earlier if the next due time is known. Also runs the sweeps that clean up after
 * dead processes.
 */
export function startUpkeep({ logger }: Platform, parts: { due: Due; sweeps: (() => Promise<void>)[] }): Upkeep {
  const ended = new AbortController()

  /** Repeats `task`, which returns the delay until its next call in ms. */
  async function again(what: string, atMostMs: number, task: () => Promise<number>): Promise<void> {
    while (!ended.signal.aborted) {
      const nextMs = await task().catch((error) => {
        logger.warn({ error: messageOf(error) }, `${what} failed; retrying`)
        return atMostMs
      })
      await sleep(Math.max(1, Math.min(Math.ceil(nextMs), atMostMs)), ended.signal)
    }
  }

  const running = [
    again('polling for due work', LOOK_MS, parts.due.look),
    ...parts.sweeps.map((sweep) =>
      again('cleaning up after dead processes', SWEEP_MS, () => sweep().then(() => SWEEP_MS)),
    ),
  ]
  return {
    async close() {
      ended.abort()
      await Promise.all(running)
      await parts.due.idle()
    },
  }
}
