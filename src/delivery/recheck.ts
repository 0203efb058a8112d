// Periodically checks for changes whose signals were lost: subscribers that have lost access, and watched runs that
// have ended.
import DataLoader from 'dataloader'
import type { Domain } from '../graphql/domain.ts'
import type { Run } from '../graphql/shapes.ts'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'

/**
 * Periodically rechecks the access of all subscribers in this process, in batches. This is necessary because a
 * signal can be lost, and a process can die between a commit and its signal.
 */
export interface PeriodicRecheck {
  /** Calls `onEnded` once the token is no longer valid. */
  token(tokenId: string, onEnded: () => void): () => void
  /**
   * Calls `onChanged` if, since the previous recheck, the human's memberships have changed or the human was
   * deleted.
   */
  human(humanId: string, onChanged: () => void): Promise<() => void>
  /** Calls `onTick` at each recheck. */
  onTick(onTick: () => void): () => void
  close(): void
}

const RECHECK_MS = 15_000
/** The maximum number of ids in one statement. */
const MOST_AT_ONCE = 5000

interface Watched {
  fingerprint: string | undefined
  onChanged: () => void
}

type Parts = Pick<Domain, 'tokens' | 'visibility'>

export function createPeriodicRecheck(
  { logger }: Pick<Platform, 'logger'>,
  { tokens, visibility }: Parts,
  intervalMs = RECHECK_MS,
): PeriodicRecheck {
  const watchedTokens = new Map<string, () => void>()
  const humans = new Map<string, Watched>()
  const others = new Set<() => void>()
  const fingerprints = createFingerprintLoader(visibility)

  async function recheckHumans(): Promise<void> {
    const entries = [...humans]
    const found = await fingerprints.loadMany(entries.map(([id]) => id))
    for (const [index, [id, watched]] of entries.entries()) {
      const mark = found[index]
      if (mark instanceof Error || humans.get(id) !== watched || watched.fingerprint === mark) continue
      watched.fingerprint = mark
      watched.onChanged()
    }
  }

  const close = repeat(logger, intervalMs, async () => {
    await Promise.all([recheckHumans(), recheckTokens(tokens, watchedTokens)])
    for (const onTick of [...others]) onTick()
  })

  return {
    token(tokenId, onEnded) {
      watchedTokens.set(tokenId, onEnded)
      return () => watchedTokens.delete(tokenId)
    },
    async human(humanId, onChanged) {
      const watched: Watched = { fingerprint: await fingerprints.load(humanId), onChanged }
      humans.set(humanId, watched)
      return () => {
        if (humans.get(humanId) === watched) humans.delete(humanId)
      }
    },
    onTick(onTick) {
      others.add(onTick)
      return () => others.delete(onTick)
    },
    close,
  }
}

/** Batches the lookups of viewers that subscribe in one tick. */
function createFingerprintLoader(visibility: Parts['visibility']) {
  return new DataLoader(
    async (ids: readonly string[]) => {
      const found = await visibility.membershipMarks(ids)
      return ids.map((id) => found.get(id))
    },
    { cache: false, maxBatchSize: MOST_AT_ONCE },
  )
}

async function recheckTokens(tokens: Parts['tokens'], watched: Map<string, () => void>): Promise<void> {
  const ids = [...watched.keys()]
  for (let from = 0; from < ids.length; from += MOST_AT_ONCE) {
    for (const id of await tokens.endedAmong(ids.slice(from, from + MOST_AT_ONCE))) watched.get(id)?.()
  }
}

/** Calls `check` periodically, never concurrently. Returns a function that stops the calls. */
function repeat(logger: Platform['logger'], intervalMs: number, check: () => Promise<void>): () => void {
  let isRunning = false
  const timer = setInterval(() => {
    if (isRunning) return
    isRunning = true
    check()
      .catch((error) => logger.warn({ error: messageOf(error) }, 'could not recheck the access of subscribers'))
      .finally(() => {
        isRunning = false
      })
  }, intervalMs)
  timer.unref()
  return () => clearInterval(timer)
}

/**
 * Detects watched runs that have ended without a published end event. The process that ended such a run may have
 * died before it published the event.
 */
export interface EndedRuns {
  /**
   * Calls `onOver` once, when two consecutive checks have found that the run has ended. The run is null if it was
   * deleted.
   */
  watch(runId: string, onOver: (run: Run | null) => void): () => void
  close(): Promise<void>
}

const CHECK_INTERVAL_MS = 5000

interface Watch {
  onOver: (run: Run | null) => void
  /**
   * Whether the previous check already found that the run had ended. If the end event was about to be published at
   * that time, it has been published by now.
   */
  wasEnded: boolean
}

export function createEndedRuns(
  { logger }: Pick<Platform, 'logger'>,
  domain: Pick<Domain, 'runs'>,
  intervalMs = CHECK_INTERVAL_MS,
): EndedRuns {
  const watches = new Map<string, Set<Watch>>()
  const stop = new AbortController()

  function notify(runId: string, run: Run | null): void {
    for (const watch of [...(watches.get(runId) ?? [])]) {
      if (watch.wasEnded) watch.onOver(run)
      watch.wasEnded = true
    }
  }

  async function check(): Promise<void> {
    const ids = [...watches.keys()]
    if (ids.length === 0) return
    const runs = await domain.runs.getMany(ids)
    for (const [index, run] of runs.entries()) {
      if (run === null || run.finishedAt !== null) notify(ids[index] as string, run)
    }
  }

  async function keepChecking(): Promise<void> {
    while (!stop.signal.aborted) {
      await sleep(intervalMs, stop.signal)
      await check().catch((error) =>
        logger.warn({ error: messageOf(error) }, 'could not recheck the state of watched runs'),
      )
    }
  }
  const checking = keepChecking()

  return {
    watch(runId, onOver) {
      const watch = { onOver, wasEnded: false }
      const ofRun = watches.get(runId) ?? new Set()
      watches.set(runId, ofRun.add(watch))
      return () => {
        ofRun.delete(watch)
        if (ofRun.size === 0 && watches.get(runId) === ofRun) watches.delete(runId)
      }
    },
    async close() {
      stop.abort()
      await checking
    },
  }
}
