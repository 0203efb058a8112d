import { setImmediate } from 'node:timers/promises'
import type { Viewer } from '../../src/access/viewer.ts'
import { decodeCursor, encodeCursor, type Position } from '../../src/realtime/cursor.ts'
import { type Delivery, type FollowOptions, LogUnavailableError } from '../../src/realtime/event-log.ts'
import type { SpaceEvent } from '../../src/schema/streams.ts'
import type { Fill, Rounds } from '../../src/server/sharing/rounds.ts'
import type { SpaceSource } from '../../src/server/streams/space-source.ts'

/** An event of the space, as the test says it is. */
export interface Entry {
  /** The same for all, each viewer's own, or of one who left. */
  kind: 'common' | 'personal' | 'left'
  /** Whom it refuses, or who left; null for nobody, or for one who has come back. */
  whom: string | null
}

/** The topic under one epoch. */
interface Life {
  epoch: string
  entries: Entry[]
  /** So many are not kept any more. */
  trimmed: number
}

/** Numbers that look random, and are the same for the same seed. */
export function createChance(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** A while: some microtasks, or a turn of the loop. */
export function createTurns(chance: (below: number) => number) {
  return async (): Promise<void> => {
    if (chance(4) === 0) await setImmediate()
    for (let left = chance(4); left > 0; left--) await null
  }
}

/** Writes to one to three at a time, at any moment. */
export function createErraticRounds(chance: (below: number) => number): Rounds {
  const turn = createTurns(chance)
  const fills: Fill[] = []
  async function run(): Promise<void> {
    while (fills[0] !== undefined) {
      for (let left = chance(8); left >= 0; left--) await turn()
      const most = 1 + chance(3)
      if (fills[0](most) < most) fills.shift()
    }
  }
  return {
    next(fill) {
      fills.push(fill)
      if (fills.length === 1) void run()
    },
    atEnd: (write) => queueMicrotask(write),
  }
}

/** A space whose log answers after any while, in pieces of any size, and is lost, cut and broken when the test says so. */
export function createErraticSpace(chance: (below: number) => number) {
  const turn = createTurns(chance)
  const lives: Life[] = []
  let end: { error: Error | null } | null = null
  let isSlow: Error | null = null
  let followers = 0
  const waiting: (() => void)[] = []

  const current = () => lives.at(-1)!
  const head = (): Position => ({ epoch: current().epoch, n: current().entries.length })
  const lifeOf = (epoch: string) => lives.find((life) => life.epoch === epoch)
  const entryAt = ({ epoch, n }: Position): Entry => lifeOf(epoch)!.entries[n - 1]!

  function ring(): void {
    for (const wake of waiting.splice(0)) wake()
  }

  function begin(): void {
    lives.push({ epoch: String(lives.length + 1).padStart(16, '0'), entries: [], trimmed: 0 })
    ring()
  }

  function pageAfter(after: Position, limit: number): Delivery {
    const { epoch, entries, trimmed } = current()
    const isKnown = after.epoch === epoch && after.n >= trimmed && after.n <= entries.length
    if (!isKnown) return { type: 'gap', cursor: encodeCursor(head()) }
    const page = entries.slice(after.n, after.n + limit)
    const toEntry = (_: Entry, index: number) => ({
      cursor: encodeCursor({ epoch, n: after.n + index + 1 }),
      at: 0,
      event: { type: 'MessageTextDelta' },
    })
    return { type: 'entries', entries: page.map(toEntry) }
  }

  async function* follow(_: string, { after, signal, onSlow }: FollowOptions): AsyncGenerator<Delivery> {
    followers += 1
    signal.addEventListener('abort', ring)
    try {
      let place = decodeCursor(after!)
      while (!signal.aborted) {
        await turn()
        if (signal.aborted || end?.error === null) return
        if (end !== null) throw end.error
        if (isSlow !== null) {
          const error = isSlow
          isSlow = null
          onSlow?.()
          throw error
        }
        const delivery = pageAfter(place, 1 + chance(40))
        const last = delivery.type === 'gap' ? delivery.cursor : delivery.entries.at(-1)?.cursor
        if (last === undefined) await new Promise<void>((resolve) => waiting.push(resolve))
        else {
          place = decodeCursor(last)
          yield delivery
        }
      }
    } finally {
      signal.removeEventListener('abort', ring)
      followers -= 1
    }
  }

  async function ask<T>(answer: () => T): Promise<T> {
    await turn()
    if (chance(20) === 0) throw new LogUnavailableError('The log is away.')
    const value = answer()
    await turn()
    return value
  }

  const source: Omit<SpaceSource, 'admit' | 'eventsFor'> = {
    head: () => ask(() => encodeCursor(head())),
    read: (_, after) => ask(() => pageAfter(decodeCursor(after), 1 + chance(60))),
    follow,
    eventsOf: (spaceId, delivery) =>
      delivery.type === 'gap'
        ? [source.snapshotAt(spaceId, delivery.cursor)]
        : delivery.entries.map(({ cursor }) => eventAt(cursor, entryAt(decodeCursor(cursor)))),
    snapshotAt: (spaceId, cursor) => ({ type: 'SpaceSnapshot', cursor, at: new Date(0), spaceId }),
    async farewellTo({ id }: Viewer, event) {
      if (entryAt(decodeCursor(event.cursor)).whom !== id) return null
      await turn()
      return new Error('Farewell.')
    },
  }
  begin()

  return {
    source: source as SpaceSource,
    head,
    lifeOf,
    entryAt,
    /** The epochs before the present one, oldest first. */
    epochs: () => lives.map(({ epoch }) => epoch),
    followers: () => followers,
    append(entry: Entry) {
      current().entries.push(entry)
      ring()
    },
    /** The log is lost; it begins anew. */
    lose: begin,
    trim(kept: number) {
      const life = current()
      life.trimmed = Math.max(life.trimmed, life.entries.length - kept)
    },
    /** Who follows is told that it is too slow. */
    findSlow(error: Error) {
      isSlow = error
      ring()
    },
    /** The log closes, or breaks. */
    end(error: Error | null) {
      end = { error }
      ring()
    },
  }
}

function eventAt(cursor: string, { kind }: Entry): SpaceEvent {
  const type = kind === 'left' ? 'MemberLeft' : 'MessageTextDelta'
  return { type, cursor, at: new Date(0), spaceId: 'spc_1' } as SpaceEvent
}
