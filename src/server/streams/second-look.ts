import DataLoader from 'dataloader'
import { messageOf } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import type { Domain } from '../../schema/domain.ts'

/**
 * Periodically rechecks the access of all subscribers of this process in batches: a signal can be lost, and a
 * process can die between a commit and its signal.
 */
export interface SecondLook {
  /** Calls `onEnded` once the token is no longer valid. */
  token(tokenId: string, onEnded: () => void): () => void
  /** Calls `onChanged` whenever the human's memberships, or its existence, differ from the previous recheck. */
  human(humanId: string, onChanged: () => void): Promise<() => void>
  /** Calls `onLook` at each recheck. */
  each(onLook: () => void): () => void
  close(): void
}

const LOOK_MS = 15_000
/** The maximum number of ids in one statement. */
const MOST_AT_ONCE = 5000

interface Watched {
  mark: string | undefined
  onChanged: () => void
}

type Parts = Pick<Domain, 'tokens' | 'visibility'>

export function createSecondLook(
  { logger }: Pick<Platform, 'logger'>,
  { tokens, visibility }: Parts,
  lookMs = LOOK_MS,
): SecondLook {
  const watchedTokens = new Map<string, () => void>()
  const humans = new Map<string, Watched>()
  const others = new Set<() => void>()
  const marks = marksOf(visibility)

  async function lookAtHumans(): Promise<void> {
    const asked = [...humans]
    const found = await marks.loadMany(asked.map(([id]) => id))
    for (const [index, [id, watched]] of asked.entries()) {
      const mark = found[index]
      if (mark instanceof Error || humans.get(id) !== watched || watched.mark === mark) continue
      watched.mark = mark
      watched.onChanged()
    }
  }

  const close = again(logger, lookMs, async () => {
    await Promise.all([lookAtHumans(), lookAtTokens(tokens, watchedTokens)])
    for (const onLook of [...others]) onLook()
  })

  return {
    token(tokenId, onEnded) {
      watchedTokens.set(tokenId, onEnded)
      return () => watchedTokens.delete(tokenId)
    },
    async human(humanId, onChanged) {
      const watched: Watched = { mark: await marks.load(humanId), onChanged }
      humans.set(humanId, watched)
      return () => {
        if (humans.get(humanId) === watched) humans.delete(humanId)
      }
    },
    each(onLook) {
      others.add(onLook)
      return () => others.delete(onLook)
    },
    close,
  }
}

/** Batches the lookups of viewers that subscribe in one tick. */
function marksOf(visibility: Parts['visibility']) {
  return new DataLoader(
    async (ids: readonly string[]) => {
      const found = await visibility.membershipMarks(ids)
      return ids.map((id) => found.get(id))
    },
    { cache: false, maxBatchSize: MOST_AT_ONCE },
  )
}

async function lookAtTokens(tokens: Parts['tokens'], watched: Map<string, () => void>): Promise<void> {
  const ids = [...watched.keys()]
  for (let from = 0; from < ids.length; from += MOST_AT_ONCE) {
    for (const id of await tokens.endedAmong(ids.slice(from, from + MOST_AT_ONCE))) watched.get(id)?.()
  }
}

/** Calls `look` periodically, never concurrently. @returns a function that stops it */
function again(logger: Platform['logger'], lookMs: number, look: () => Promise<void>): () => void {
  let isLooking = false
  const timer = setInterval(() => {
    if (isLooking) return
    isLooking = true
    look()
      .catch((error) => logger.warn({ error: messageOf(error) }, 'could not recheck the access of subscribers'))
      .finally(() => {
        isLooking = false
      })
  }, lookMs)
  timer.unref()
  return () => clearInterval(timer)
}
