import { sleep } from '../../lib/async.ts'
import { messageOf } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import type { Domain } from '../../schema/domain.ts'
import type { Run } from '../../schema/shapes.ts'

/**
 * Detects watched runs that have ended without a published end event: the process that ended them may have
 * died in between.
 */
export interface EndedRuns {
  /** Calls `onOver` once, with the run or null if it was deleted, at the second check that finds the run ended. */
  watch(runId: string, onOver: (run: Run | null) => void): () => void
  close(): Promise<void>
}

const LOOK_INTERVAL_MS = 5000

interface Watch {
  onOver: (run: Run | null) => void
  /** The previous check already found the run ended, so its end event must have been published by now. */
  seenOver: boolean
}

export function createEndedRuns(
  { logger }: Pick<Platform, 'logger'>,
  domain: Pick<Domain, 'runs'>,
  intervalMs = LOOK_INTERVAL_MS,
): EndedRuns {
  const watches = new Map<string, Set<Watch>>()
  const stop = new AbortController()

  function tell(runId: string, run: Run | null): void {
    for (const watch of [...(watches.get(runId) ?? [])]) {
      if (watch.seenOver) watch.onOver(run)
      watch.seenOver = true
    }
  }

  async function look(): Promise<void> {
    const ids = [...watches.keys()]
    if (ids.length === 0) return
    const runs = await domain.runs.getMany(ids)
    for (const [index, run] of runs.entries()) {
      if (run === null || run.finishedAt !== null) tell(ids[index] as string, run)
    }
  }

  async function keepLooking(): Promise<void> {
    while (!stop.signal.aborted) {
      await sleep(intervalMs, stop.signal)
      await look().catch((error) =>
        logger.warn({ error: messageOf(error) }, 'could not recheck the state of watched runs'),
      )
    }
  }
  const looking = keepLooking()

  return {
    watch(runId, onOver) {
      const watch = { onOver, seenOver: false }
      const ofRun = watches.get(runId) ?? new Set()
      watches.set(runId, ofRun.add(watch))
      return () => {
        ofRun.delete(watch)
        if (ofRun.size === 0 && watches.get(runId) === ofRun) watches.delete(runId)
      }
    },
    async close() {
      stop.abort()
      await looking
    },
  }
}
