import { LRUCache } from 'lru-cache'
import { type AppendOptions, KEPT_MS } from '../broker/log.ts'
import { spaceTopic } from '../broker/topics.ts'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'

/**
 * Appends committed messages to the event log, in the order of `seq` and without gaps, no matter which process
 * committed them.
 */
export interface Announcer {
  /** Appends MessagePosted for the message, after any earlier messages that were committed but never announced. */
  announce(message: { id: string; spaceId: string; seq: number }): Promise<void>
  /**
   * Starts to check the space for messages that were committed but not announced. The check finds such messages within
   * 5 s.
   * @returns a function that stops checking
   */
  watch(spaceId: string): () => void
  close(): Promise<void>
}

/** A message id that no message has. In the event log, it replaces a message that needs no event. */
export const NO_MESSAGE = `msg_${'0'.repeat(32)}`
const CHECK_INTERVAL_MS = 5000
/**
 * The delays between retries while the process that committed an earlier message can still announce it. After the last
 * delay, that message is read from the database.
 */
const TRIED_AGAIN_AFTER_MS = [5, 10, 20, 40]
/** Successive messages of a burst are at most this far apart. */
const BURST_MS = 60_000
const MOST_CAUGHT_UP = 1000
/** The number of spaces whose last announced message this process remembers. */
const MOST_REMEMBERED = 10_000

export function createAnnouncer({ db, log, logger }: Pick<Platform, 'db' | 'log' | 'logger'>): Announcer {
  const watched = new Map<string, number>()
  const stop = new AbortController()
  const early = createEarlyOnes()
  /**
   * The highest `seq` that this process has announced, by space. If the topic is lost, messages up to this `seq` are
   * not announced again.
   */
  const announced = new LRUCache<string, number>({ max: MOST_REMEMBERED })

  const append = (spaceId: string, messageId: string, ordinal: number, options: AppendOptions = {}) =>
    log.append(spaceTopic(spaceId), { type: 'MessagePosted', messageId }, { ...options, ordinal })

  async function catchUp(spaceId: string, after: number): Promise<void> {
    const missing = await db.prisma.message.findMany({
      where: { spaceId, seq: { gt: after } },
      orderBy: { seq: 'asc' },
      select: { id: true, seq: true },
      take: MOST_CAUGHT_UP,
    })
    await appendAll(spaceId, missing, after + 1)
  }

  async function appendAll(spaceId: string, messages: { id: string; seq: number }[], from: number): Promise<void> {
    let next = from
    for (const { id, seq } of messages) {
      // A message that was deleted before its announcement would leave a gap. NO_MESSAGE fills the gap, because the
      // numbers in the topic must be consecutive.
      for (; next < seq; next++) await append(spaceId, NO_MESSAGE, next)
      await append(spaceId, id, seq)
      next = seq + 1
    }
  }

  /**
   * Announces a message in a topic that contains none. In a new or expired topic, earlier messages of the same burst
   * are announced first, because nobody else may have announced them. If the topic was lost, only this message is
   * announced, because subscribers have read the earlier messages in a snapshot.
   */
  async function begin(spaceId: string, last: number): Promise<void> {
    const newest = {
      where: { seq: { lte: last } },
      orderBy: { seq: 'desc' as const },
      select: { id: true, seq: true, createdAt: true },
      take: MOST_CAUGHT_UP,
    }
    const space = await db.prisma.space.findUnique({
      where: { id: spaceId },
      select: { createdAt: true, messages: newest },
    })
    if (space === null) return
    const burst = space.messages.slice(0, lengthOfBurst(space)).reverse()
    const [first, ...others] = burst.filter(({ seq }) => seq > (announced.get(spaceId) ?? 0))
    if (first === undefined) return
    await append(spaceId, first.id, first.seq, { isFirst: true })
    await appendAll(spaceId, others, first.seq + 1)
  }

  async function checkWatched(): Promise<void> {
    const ids = [...watched.keys()]
    if (ids.length === 0) return
    const ordinals = await log.lastOrdinals(ids.map(spaceTopic))
    const known = new Map(ids.map((id, index) => [id, ordinals[index]]))
    const spaces = await db.prisma.space.findMany({ where: { id: { in: ids } }, select: { id: true, lastSeq: true } })
    for (const { id, lastSeq } of spaces) {
      const last = known.get(id)
      if (last != null && last < lastSeq) await catchUp(id, last)
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
        if (result.type !== 'missing' || result.after === null) break
        await early.turn(spaceId, seq, ms)
        result = await append(spaceId, id, seq)
      }
      if (result.type === 'missing') {
        if (result.after === null) await begin(spaceId, seq)
        else await catchUp(spaceId, result.after)
      }
      announced.set(spaceId, Math.max(seq, announced.get(spaceId) ?? 0))
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
 * Returns how many of the newest messages of a space, latest first, belong to the burst that began its topic. Returns 1
 * if the topic is neither new nor expired: such a topic was lost, because it would otherwise still contain messages
 * from before the burst.
 */
function lengthOfBurst({ createdAt, messages }: { createdAt: Date; messages: readonly { createdAt: Date }[] }): number {
  for (const [index, message] of messages.entries()) {
    const earlier = messages[index + 1]
    if (earlier === undefined) return messages.length < MOST_CAUGHT_UP ? index + 1 : 1
    // A copied message is older than its space, and it was never announced there.
    if (earlier.createdAt < createdAt) return index + 1
    const pauseMs = message.createdAt.getTime() - earlier.createdAt.getTime()
    if (pauseMs > BURST_MS) return pauseMs >= KEPT_MS ? index + 1 : 1
  }
  return 0
}

/**
 * Makes a message wait until its predecessor has been announced. So when many messages are posted in a space at once,
 * they do not all read their predecessors from the database.
 */
function createEarlyOnes() {
  /** The functions that wake waiting announcements, by space and `seq`. */
  const waiting = new Map<string, Map<number, () => void>>()
  return {
    /** Resolves when this process has announced the predecessor, and after `ms` at the latest. */
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
