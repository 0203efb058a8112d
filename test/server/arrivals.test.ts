import { describe, expect, test } from 'vitest'
import { createDeferred } from '../../src/lib/async.ts'
import { decodeCursor, encodeCursor, type Position } from '../../src/realtime/cursor.ts'
import type { SpaceEvent } from '../../src/schema/streams.ts'
import { type Arrivals, createArrivals } from '../../src/server/sharing/arrivals.ts'
import type { Subscriber } from '../../src/server/sharing/audience.ts'
import type { SpaceSource } from '../../src/server/streams/space-source.ts'
import { notingSubscriber } from '../support/subscriber.ts'
import { until } from '../support/until.ts'

const OLD = '1'.repeat(16)
const NEW = '2'.repeat(16)

/** Arrivals at a log of five events under the new epoch, the last of which may be a farewell; read so many at a time. */
function setUp({ farewell = Promise.resolve<Error | null>(null), page = 5 } = {}) {
  const eventAt = (n: number) =>
    ({ type: n === 5 ? 'MemberLeft' : 'SpaceUpdated', cursor: encodeCursor({ epoch: NEW, n }) }) as SpaceEvent
  const world = { front: { epoch: OLD, n: 9 } as Position, joined: [] as Subscriber[], isAsked: false }
  const source: Partial<SpaceSource> = {
    read: async (_, after) => ({ type: 'entries', entries: [{ cursor: after, at: 0, event: { type: '' } }] }),
    eventsOf: (_, delivery) => {
      const { n } = decodeCursor(delivery.type === 'entries' ? delivery.entries[0]!.cursor : '')
      return [1, 2, 3, 4, 5].slice(n, n + page).map(eventAt)
    },
    snapshotAt: (_, cursor) => ({ type: 'SpaceSnapshot', cursor }) as SpaceEvent,
    farewellTo() {
      world.isAsked = true
      return farewell
    },
  }
  const arrivals = createArrivals({
    source: source as SpaceSource,
    spaceId: 'spc_1',
    answering: { answer: async ({ cursor }) => String(decodeCursor(cursor).n), end: () => {} },
    started: Promise.resolve(),
    front: () => world.front,
    join: (subscriber) => world.joined.push(subscriber),
    signal: new AbortController().signal,
  })
  return { arrivals, world }
}

const subscriberOf = (arrivals: Arrivals, onFirst = () => {}) =>
  notingSubscriber(arrivals.leave, ({ length }) => length === 1 && onFirst())

describe('those who arrive', () => {
  test('with places in an epoch that the group has yet to learn of are each told everything after theirs', async () => {
    const { arrivals, world } = setUp()
    const [near, far] = [subscriberOf(arrivals), subscriberOf(arrivals)]
    arrivals.enter(near.subscriber, { epoch: NEW, n: 3 })
    arrivals.enter(far.subscriber, { epoch: NEW, n: 1 })
    await until('the near one is told', () => near.sent.length === 2)
    world.front = { epoch: NEW, n: 5 }
    await until('both have caught up', () => world.joined.length === 2)
    expect([near.sent, far.sent]).toEqual([
      ['4', '5'],
      ['2', '3', '4', '5'],
    ])
  })

  test('are told nothing once they have left, also where they come to the event of their leaving', async () => {
    const farewell = createDeferred<Error>()
    const { arrivals, world } = setUp({ farewell: farewell.promise })
    const [gone, other] = [subscriberOf(arrivals), subscriberOf(arrivals)]
    arrivals.enter(gone.subscriber, { epoch: NEW, n: 3 })
    await until('it is looked up whether it left', () => world.isAsked)
    arrivals.leave(gone.subscriber)
    arrivals.enter(other.subscriber, { epoch: NEW, n: 3 })
    farewell.resolve(new Error('Farewell.'))
    await until('the other one comes to its end', () => other.ended.length > 0)
    expect([gone.sent, gone.ended]).toEqual([[], []])
    expect(other.sent).toEqual(['4'])
  })

  test('do not wait for who has more to be told than they', async () => {
    const { arrivals, world } = setUp({ page: 1 })
    world.front = { epoch: NEW, n: 5 }
    const [near, fresh] = [subscriberOf(arrivals), subscriberOf(arrivals)]
    const far = subscriberOf(arrivals, () => {
      arrivals.enter(near.subscriber, { epoch: NEW, n: 4 })
      arrivals.enter(fresh.subscriber, null)
    })
    arrivals.enter(far.subscriber, { epoch: NEW, n: 0 })
    await until('all have caught up', () => world.joined.length === 3)
    expect(world.joined.at(-1)).toBe(far.subscriber)
    expect([far.sent, near.sent, fresh.sent]).toEqual([['1', '2', '3', '4', '5'], ['5'], ['5']])
  })
})
