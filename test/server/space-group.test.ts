import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import type { ExecutionResult } from 'graphql'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { AdminViewer, Viewer } from '../../src/access/viewer.ts'
import { createDeferred } from '../../src/lib/async.ts'
import { decodeCursor, encodeCursor, type Position } from '../../src/realtime/cursor.ts'
import { SlowConsumerError } from '../../src/realtime/event-log.ts'
import type { SpaceEvent } from '../../src/schema/streams.ts'
import type { Subscriber } from '../../src/server/sharing/audience.ts'
import { createSpaceGroup, type SpaceGroup } from '../../src/server/sharing/space-group.ts'
import {
  createChance,
  createErraticRounds,
  createErraticSpace,
  createTurns,
  type Entry,
} from '../support/erratic-space.ts'

const RUNS = Number(process.env['GROUP_RUNS'] ?? 600)
const VIEWERS = ['Ada', 'Bob', 'Cleo'].map(
  (id): AdminViewer => ({ scope: 'ADMIN', id, tokenId: null, expiresAt: null }),
)

type Action =
  | { type: 'append'; entry: Entry; count: number }
  | { type: 'enter'; viewer: number; from: 'now' | 'past' | 'first' | 'ahead' | 'elsewhere'; back: number }
  | { type: 'leave' | 'lag' | 'read'; who: number }
  | { type: 'trim' | 'wait'; count: number }
  | { type: 'lose' | 'slow' | 'close' | 'break' }

const whom = fc.constantFrom(null, ...VIEWERS.map(({ id }) => id))
const entry = fc.oneof(
  { weight: 5, arbitrary: fc.constant<Entry>({ kind: 'common', whom: null }) },
  {
    weight: 2,
    arbitrary: fc.record<Entry>({ kind: fc.constantFrom('personal', 'left'), whom }),
  },
)
const type = <T extends string>(...types: T[]) => fc.constantFrom(...types)
const who = fc.nat(20)
const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ type: type('append'), entry, count: fc.integer({ min: 1, max: 50 }) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      type: type('enter'),
      viewer: fc.nat(VIEWERS.length - 1),
      from: fc.constantFrom('now', 'past', 'past', 'first', 'ahead', 'elsewhere'),
      back: fc.nat(80),
    }),
  },
  { weight: 6, arbitrary: fc.record({ type: type('wait'), count: fc.integer({ min: 1, max: 15 }) }) },
  { weight: 2, arbitrary: fc.record({ type: type('leave', 'lag', 'read'), who }) },
  { weight: 1, arbitrary: fc.record({ type: type('trim'), count: fc.nat(20) }) },
  { weight: 2, arbitrary: fc.record({ type: type('lose', 'lose', 'slow') }) },
  { weight: 1, arbitrary: fc.record({ type: type('close', 'break') }) },
)

/** One who subscribes, and all that came to it. */
interface Client {
  subscriber: Subscriber
  after: Position | null
  told: { type: string; cursor: string; to: string | null }[]
  /** What ended it: an error, null for a plain end, `left` where it went by itself. */
  ended: { by: unknown } | null
  leave(by: unknown): void
  lag(isLagging: boolean): void
}

class Refusal extends Error {}
class Broken extends Error {}

/** A group over an erratic space. */
function setUp(seed: number) {
  const chance = createChance(seed)
  const turn = createTurns(chance)
  const space = createErraticSpace(chance)
  const clients: Client[] = []
  let running = 0
  const rounds = createErraticRounds(chance)
  let group: SpaceGroup | null = null

  async function* answer(viewer: Viewer, events: AsyncIterable<SpaceEvent>): AsyncGenerator<ExecutionResult> {
    running += 1
    try {
      for await (const { type, cursor } of events) {
        await turn()
        const isPersonal = type !== 'SpaceSnapshot' && space.entryAt(decodeCursor(cursor)).kind === 'personal'
        const to = isPersonal ? viewer.id : null
        const isItself = VIEWERS.some((one) => one === viewer)
        if (isPersonal && isItself && space.entryAt(decodeCursor(cursor)).whom === to) throw new Refusal()
        yield { data: { type, cursor, to } }
      }
    } finally {
      running -= 1
    }
  }

  function begin(): SpaceGroup {
    const begun = createSpaceGroup({
      source: space.source,
      rounds,
      spaceId: 'spc_1',
      anyViewer: VIEWERS[0]!,
      async run(viewer, events) {
        await turn()
        return answer(viewer, events)
      },
      textOf: ({ data }) => JSON.stringify(data),
      onEmpty() {
        if (group === begun) group = null
      },
    })
    return begun
  }
  const groupNow = () => (group ??= begin())
  const isOver = () => group === null && running === 0 && space.followers() === 0
  return { space, groupNow, clients, isOver }
}

type World = ReturnType<typeof setUp>

function enter({ groupNow, clients }: World, viewer: Viewer, after: Position | null): void {
  let drained = createDeferred()
  let isLagging = false
  let ends = 0
  let leaveGroup: (() => void) | null = null
  const client: Client = {
    subscriber: {
      viewer,
      head: '',
      outlet: {
        send: () => {},
        sendAll(_, texts) {
          if (client.ended !== null) throw new Error('told after its end')
          client.told.push(...texts.map((text) => JSON.parse(text)))
        },
        waiting: () => (isLagging ? 300 : 0),
        isOpen: () => client.ended === null,
        drained: () => drained.promise,
        flush: () => {},
        giveUp: () => client.leave('left'),
      },
      end(error) {
        ends += 1
        if (ends > 100) throw new Error('ended without an end')
        client.leave(error)
      },
    },
    after,
    told: [],
    ended: null,
    leave(by) {
      client.ended ??= { by }
      leaveGroup?.()
    },
    lag(becomes) {
      if (becomes && !isLagging) drained = createDeferred()
      isLagging = becomes
      if (!becomes) drained.resolve()
    },
  }
  clients.push(client)
  client.lag(false)
  leaveGroup = groupNow().enter(client.subscriber, after)
  if (client.ended !== null) leaveGroup()
}

/** Where a client comes from that enters. */
function placeOf({ space }: World, { from, back }: Extract<Action, { type: 'enter' }>): Position | null {
  const { epoch, n } = space.head()
  if (from === 'now') return null
  if (from === 'past') return { epoch, n: Math.max(0, n - back) }
  if (from === 'first') return { epoch: space.epochs()[0]!, n: 0 }
  return from === 'ahead' ? { epoch, n: n + back } : { epoch: 'f'.repeat(16), n: back }
}

async function act(world: World, one: Action): Promise<void> {
  const { space, clients } = world
  switch (one.type) {
    case 'append':
      for (let count = 0; count < one.count; count++) space.append(count === 0 ? one.entry : COMMON)
      return
    case 'enter':
      return enter(world, VIEWERS[one.viewer]!, placeOf(world, one))
    case 'leave':
      return clients[one.who]?.leave('left')
    case 'lag':
    case 'read':
      return clients[one.who]?.lag(one.type === 'lag')
    case 'trim':
      return space.trim(one.count)
    case 'wait':
      for (let count = 0; count < one.count; count++) await setImmediate()
      return
    case 'lose':
      return space.lose()
    case 'slow':
      return space.findSlow(new SlowConsumerError())
    default:
      return space.end(one.type === 'close' ? null : new Broken())
  }
}

const COMMON: Entry = { kind: 'common', whom: null }

/** Lets everything that is under way come to its end. */
async function settle(isDone: () => boolean): Promise<boolean> {
  for (let turns = 0; turns < 3000; turns++) {
    if (isDone()) return true
    await setImmediate()
    vi.advanceTimersByTime(20)
  }
  return false
}

/** Walks through what a client was told, and answers with the place that it has come to. Fails where something is amiss. */
function walk({ space }: World, { after, told, subscriber }: Client): Position | null {
  const epochs = space.epochs()
  let place = after
  for (const { type, cursor, to } of told) {
    const next = decodeCursor(cursor)
    const says = `${type} at ${next.epoch}.${next.n} after ${place?.epoch}.${place?.n}`
    const life = space.lifeOf(place?.epoch ?? '')
    if (type === 'SpaceSnapshot') {
      const isNewer = place === null || life === undefined || epochs.indexOf(next.epoch) > epochs.indexOf(place.epoch)
      const isGap = (life?.trimmed ?? 0) > 0 && place !== null && next.n > place.n
      const wasAhead = place === after && place !== null && place.n > next.n
      expect(isNewer || isGap || wasAhead, says).toBe(true)
    } else {
      expect(next, says).toEqual({ epoch: place?.epoch, n: (place?.n ?? 0) + 1 })
      const { kind, whom } = space.entryAt(next)
      expect(to).toBe(kind === 'personal' ? subscriber.viewer.id : null)
      expect(whom === subscriber.viewer.id, `${says} to whom it refuses`).toBe(false)
    }
    place = next
  }
  return place
}

/** Whether a client has come to its end where it had to. */
function checkEnd(world: World, { ended, subscriber }: Client, place: Position | null, isOver: boolean): void {
  if (ended === null) {
    expect(isOver).toBe(false)
    expect(place).toEqual(world.space.head())
    return
  }
  const { by } = ended
  if (by === 'left') return
  if (by === null || by instanceof Broken) {
    expect(isOver).toBe(true)
    return
  }
  const { entries = [] } = world.space.lifeOf(place?.epoch ?? '') ?? {}
  const next = place?.n ?? 0
  const isRefusedBy = (one: Entry | undefined, kind: Entry['kind']) =>
    one?.kind === kind && one.whom === subscriber.viewer.id
  // Who has read ahead of a group learns only with it that it left.
  if (by instanceof Refusal) expect(isRefusedBy(entries[next], 'personal')).toBe(true)
  else expect(entries.slice(0, next + 1).some((one) => isRefusedBy(one, 'left'))).toBe(true)
}

describe('subscribers of one space by one operation', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
  afterEach(() => void vi.useRealTimers())

  async function play(seed: number, actions: Action[]): Promise<void> {
    const world = setUp(seed)
    const { space, clients } = world
    enter(world, VIEWERS[0]!, null)
    for (const one of actions) await act(world, one)
    const isOver = actions.some(({ type }) => type === 'close' || type === 'break')
    for (const client of clients) client.lag(false)
    space.append(COMMON)
    const last = () => encodeCursor(space.head())
    await settle(() =>
      clients.every(({ told, ended }) => ended !== null || (!isOver && told.at(-1)?.cursor === last())),
    )
    for (let turns = 0; turns < 5; turns++) await setImmediate()
    for (const client of clients) checkEnd(world, client, walk(world, client), isOver)
    for (const client of clients) client.leave('left')
    expect(await settle(world.isOver)).toBe(true)
  }

  test('are told each event after their place once, in its order, or are ended where they must be', async () => {
    const property = fc.asyncProperty(fc.nat(), fc.array(action, { minLength: 3, maxLength: 40 }), play)
    await fc.assert(property, { numRuns: RUNS, endOnFailure: true })
  })
})
