import { PRESENCE_CHANNEL, type PresenceSignal } from '../broker/topics.ts'
import type { Platform } from '../platform/platform.ts'
import type { PresenceTable } from './presence-table.ts'

/**
 * A process that has sent nothing for this long is considered dead. People who are not connected to another process
 * become OFFLINE.
 */
export const SILENT_AFTER_MS = 15_000
/**
 * After a process shuts down, its people keep their presence for this time, so that they can connect to another
 * process.
 */
export const MOVED_WITHIN_MS = 5000
/** The minimum time between two full lists, and between two requests to the same process. */
const WHOLE_EVERY_MS = 1000

/** The state of another process, as far as this process has received it. */
interface Neighbour {
  heardAt: number
  /** The number of the last applied message; null until the full list arrives. */
  seq: number | null
  askedAt: number
}

/**
 * Informs the other processes about the people who are connected to this one. Sends numbered changes, and the full list
 * on request.
 */
export interface PresenceExchange {
  /**
   * Sends the changes since the last call. A message without changes tells the other processes that this process is
   * alive.
   */
  send(changes: Omit<PresenceSignal & { type: 'presence' }, 'type' | 'by' | 'seq'>): void
  /** Removes processes that are considered dead. */
  sweep(now: number): void
  close(): Promise<void>
}

/**
 * Exchanges presence between processes through signals, without storing it. Each process numbers its messages, so that
 * a receiver that missed a message can request the full list. Times are sent as ages, because the clocks of processes
 * differ.
 */
export function openPresenceExchange(
  { signals }: Pick<Platform, 'signals'>,
  { processId, table, now }: { processId: string; table: PresenceTable; now: () => number },
): PresenceExchange {
  const neighbours = new Map<string, Neighbour>()
  let seq = 0
  let answer: NodeJS.Timeout | null = null
  let answeredAt = Number.NEGATIVE_INFINITY

  const publish = (signal: PresenceSignal) => void signals.publish(PRESENCE_CHANNEL, signal)

  const ask = (of: string | null) => publish({ type: 'presence-wanted', by: processId, of })

  function sendEverybody(): void {
    answer = null
    answeredAt = now()
    const people = [...table.peopleOf(processId)].map((id): [string, number] => [
      id,
      secondsOf(table.idleMs(id, now())),
    ])
    publish({ type: 'presence-of-all', by: processId, seq, people })
  }

  function answerSoon(): void {
    answer ??= setTimeout(sendEverybody, Math.max(0, answeredAt + WHOLE_EVERY_MS - now())).unref()
  }

  /** Requests the full list from a process, unless this process has just requested it. */
  function askAgain(id: string, neighbour: Neighbour): void {
    neighbour.seq = null
    if (now() - neighbour.askedAt < WHOLE_EVERY_MS) return
    neighbour.askedAt = now()
    ask(id)
  }

  function applyChanges({ by, seq: number, came, went, active, typing }: PresenceSignal & { type: 'presence' }): void {
    const known = neighbours.get(by)
    const neighbour = known ?? { heardAt: now(), seq: null, askedAt: Number.NEGATIVE_INFINITY }
    neighbours.set(by, neighbour)
    neighbour.heardAt = now()
    const hasChanges = came.length + went.length > 0
    const expected = neighbour.seq === null ? null : neighbour.seq + (hasChanges ? 1 : 0)
    for (const [id, seconds] of active) table.noteActive(id, { activeAt: now() - seconds * 1000, now: now() })
    for (const [id, spaceId, leftMs] of typing) table.setTyping(id, spaceId, now() + leftMs, now())
    if (number !== expected) {
      askAgain(by, neighbour)
      return
    }
    neighbour.seq = number
    for (const [id, seconds] of came) table.connect(id, by, { activeAt: now() - seconds * 1000, now: now() })
    for (const id of went) table.disconnect(id, by, now())
  }

  function forget(id: string): void {
    neighbours.delete(id)
    table.replaceProcess(id, new Map(), now())
  }

  function applyEverybody({ by, seq: number, people }: PresenceSignal & { type: 'presence-of-all' }): void {
    neighbours.set(by, { heardAt: now(), seq: number, askedAt: now() })
    table.replaceProcess(by, new Map(people.map(([id, seconds]) => [id, now() - seconds * 1000])), now())
  }

  function receive(signal: PresenceSignal): void {
    if (signal.by === processId) return
    switch (signal.type) {
      case 'presence':
        applyChanges(signal)
        break
      case 'presence-of-all':
        applyEverybody(signal)
        break
      case 'presence-wanted':
        if (signal.of === null || signal.of === processId) answerSoon()
        break
      case 'presence-left': {
        // The people of that process will connect to other processes now.
        const neighbour = neighbours.get(signal.by)
        if (neighbour !== undefined) neighbour.heardAt = now() - SILENT_AFTER_MS + MOVED_WITHIN_MS
      }
    }
  }

  // The subscription stays pending while Redis is unreachable.
  const listening = signals
    .subscribe(PRESENCE_CHANNEL, (payload) => receive(payload as PresenceSignal))
    .then((leave) => {
      ask(null)
      return leave
    })
    .catch(() => () => {})
  const stopReconnects = signals.onReconnect(() => {
    ask(null)
    answerSoon()
  })

  return {
    send(changes) {
      if (changes.came.length + changes.went.length > 0) seq += 1
      publish({ type: 'presence', by: processId, seq, ...changes })
    },
    sweep(time) {
      for (const [id, { heardAt }] of neighbours) if (time - heardAt > SILENT_AFTER_MS) forget(id)
    },
    async close() {
      stopReconnects()
      if (answer !== null) clearTimeout(answer)
      publish({ type: 'presence-left', by: processId })
      void listening.then((leave) => leave())
    },
  }
}

export const secondsOf = (ms: number): number => Math.max(0, Math.round(ms / 1000))
