import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import { spaceTopic } from '../realtime/topics.ts'

/** Brings committed messages into the event log, in `seq` order and without a hole, whoever committed them. */
export interface Announcer {
  /** Appends MessagePosted. Messages below `seq` that were committed but never announced come first. */
  announce(message: { id: string; spaceId: string; seq: number }): Promise<void>
  /** While at least one watch of a space stands, what its committer did not announce is found within 5 s. */
  watch(spaceId: string): () => void
  close(): Promise<void>
}

/** The id of no message. */
const NOTHING = `msg_${'0'.repeat(32)}`
const CHECK_INTERVAL_MS = 5000

export function createAnnouncer({ db, log, logger }: Pick<Platform, 'db' | 'log' | 'logger'>): Announcer {
  const watched = new Map<string, number>()
  const stop = new AbortController()

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
      // What was deleted before anybody was told of it leaves a hole: numbers follow on, and there is nothing to tell.
      for (; next < seq; next++) await append(spaceId, NOTHING, next)
      await append(spaceId, id, seq)
      next = seq + 1
    }
  }

  async function checkWatched(): Promise<void> {
    const ids = [...watched.keys()]
    if (ids.length === 0) return
    const ordinals = await log.announced(ids.map(spaceTopic))
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
      await checkWatched().catch((error) => logger.warn({ error: messageOf(error) }, 'announcer check failed'))
    }
  }
  const checking = keepChecking()

  return {
    async announce({ id, spaceId, seq }) {
      const result = await append(spaceId, id, seq)
      if (result.type === 'missing') await catchUp(spaceId, result.after)
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
