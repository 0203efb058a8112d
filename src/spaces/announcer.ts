import { spaceTopic } from '../broker/topics.ts'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'

/**
 * Appends committed messages to the event log in the order of `seq` and without gaps, whichever process committed
 * them.
 */
export interface Announcer {
  /**
   * Appends MessagePosted for the message, after appending earlier messages that were committed but never announced.
   */
  announce(message: { id: string; spaceId: string; seq: number }): Promise<void>
  /**
   * Starts a check that finds messages in the space within 5 s if the process that committed them did not announce
   * them.
   * @returns a function that ends the check
   */
  watch(spaceId: string): () => void
  close(): Promise<void>
}

/** A message id that no message has. */
const NOTHING = `msg_${'0'.repeat(32)}`
const CHECK_INTERVAL_MS = 5000
/**
 * Retry delays while the committer of an earlier message may still announce it, in this process or
 * another. After the last delay, that message is read from the database.
 */
const TRIED_AGAIN_AFTER_MS = [5, 10, 20, 40]

export function createAnnouncer({ db, log, logger }: Pick<Platform, 'db' | 'log' | 'logger'>): Announcer {
  const watched = new Map<string, number>()
  const stop = new AbortController()
  const early = createEarlyOnes()

  const append = (spaceId: string, messageId: string, ordinal: number) =>
    log.append(spaceTopic(spaceId), { type: 'MessagePosted', messageId }, { ordinal })

  async function catchUp(spaceId: string, after: number): Promise<void> {
    const missing = await db.prisma.message.findMany({
      where: { spaceId, seq: { gt: after } },
      orderBy: { seq: 'asc' },
      select: { id: true, seq: true },
      take: 1000,
    })
    let next = after + 1
    for (const { id, seq } of missing) {
      // A message that was deleted before its announcement would leave a gap. An id that no message has fills the
      // gap, because ordinals must be consecutive.
      for (; next < seq; next++) await append(spaceId, NOTHING, next)
      await append(spaceId, id, seq)
      next = seq + 1
    }
  }

  async function checkWatched(): Promise<void> {
    const ids = [...watched.keys()]
    if (ids.length === 0) return
    const ordinals = await log.lastOrdinals(ids.map(spaceTopic))
    const announced = new Map(ids.map((id, index) => [id, ordinals[index]]))
    const spaces = await db.prisma.space.findMany({ where: { id: { in: ids } }, select: { id: true, lastSeq: true } })
    for (const { id, lastSeq } of spaces) {
      const known = announced.get(id)
      if (known != null && known < lastSeq) await catchUp(id, known)
    }
  }

  async function keepChecking(): Promise<void> {
    while (!stop.signal.aborted) {
      await sleep(CHECK_INTERVAL_MS, stop.signal)
      await checkWatched().catch((error) =>
        logger.warn({ error: messageOf(error) }, 'could not check for unannounced messages; retrying'),
      )
    }
  }
  const checking = keepChecking()

  return {
    async announce({ id, spaceId, seq }) {
      let result = await append(spaceId, id, seq)
      for (const ms of TRIED_AGAIN_AFTER_MS) {
        if (result.type !== 'missing') break
        await early.turn(spaceId, seq, ms)
        result = await append(spaceId, id, seq)
      }
      if (result.type === 'missing') await catchUp(spaceId, result.after)
      early.follow(spaceId, seq)
    },
    watch(spaceId) {
      watched.set(spaceId, (watched.get(spaceId) ?? 0) + 1)
      return () => {
        const left = (watched.get(spaceId) ?? 1) - 1
        if (left === 0) watched.delete(spaceId)
        else watched.set(spaceId, left)
      }
    },
    async close() {
      stop.abort()
      await checking
    },
  }
}

/**
 * Lets a message wait until its predecessor has been announced. When many messages are posted in a space at once,
 * this prevents each of them from reading the predecessor from the database.
 */
function createEarlyOnes() {
  /** By space and `seq`, the function that wakes a waiting announcement. */
  const waiting = new Map<string, Map<number, () => void>>()
  return {
    /** Resolves when this process has announced the predecessor, or after `ms`. */
    turn(spaceId: string, seq: number, ms: number): Promise<void> {
      const ofSpace = waiting.get(spaceId) ?? new Map<number, () => void>()
      waiting.set(spaceId, ofSpace)
      return new Promise((resolve) => {
        const settle = () => {
          clearTimeout(timer)
          ofSpace.delete(seq)
          if (ofSpace.size === 0) waiting.delete(spaceId)
          resolve()
        }
        const timer = setTimeout(settle, ms)
        ofSpace.set(seq, settle)
      })
    },
    /** Wakes the announcements of all consecutive messages that follow an announced message. */
    follow(spaceId: string, seq: number): void {
      const ofSpace = waiting.get(spaceId)
      for (let next = seq + 1; ofSpace?.has(next); next++) ofSpace.get(next)?.()
    },
  }
}
