import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const WATCH = `subscription ($spaceId: ID!, $after: StreamCursor) { spaceMessages(spaceId: $spaceId, after: $after) {
  __typename cursor ... on MessagePosted { message { text space { unreadCount } } } } }`
type Data = {
  spaceMessages: { __typename: string; cursor: string; message?: { text: string; space: { unreadCount: number } } }
}

describe('an event whose payload fails once for one of many subscribers', () => {
  let parley: TestServer
  let people: HumanViewer[]
  let spaceId: string
  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
    people = await Promise.all(['Ada', 'Bea', 'Cid', 'Dan'].map((name) => parley.human(name)))
    const { domain } = parley.app
    spaceId = (await parley.space(people[0]!, [])).id
    for (const { id } of people.slice(1)) await domain.members.add(parley.admin, { spaceId, entityId: id })
  })
  afterEach(() => vi.restoreAllMocks())
  afterAll(() => parley?.close())

  const watchAll = (after?: string) =>
    Promise.all(
      people.map(async (one) => (await parley.clientOf(one)).subscribe<Data, object>(WATCH, { spaceId, after })),
    )
  const textsOf = (seen: Data[]) => seen.flatMap(({ spaceMessages: { message } }) => message?.text ?? [])

  /** Returns a value that is not a number for the last viewer of the first batch of at least two viewers. */
  function failOneOfMany(before: () => Promise<void> = async () => {}) {
    const { reading } = parley.app.domain
    const look = reading.unreadOfMany
    const failed: string[] = []
    vi.spyOn(reading, 'unreadOfMany').mockImplementation(async (asked) => {
      await before()
      const found = await look(asked)
      if (asked.length < 2 || failed.length > 0) return found
      const { humanId } = asked.at(-1)!
      failed.push(humanId)
      return new Map(found).set(humanId, new Map([[spaceId, { messages: 'many' as unknown as number, mentions: 0 }]]))
    })
    return failed
  }

  test('reaches all subscribers once and in order', async () => {
    const live = await watchAll()
    await until('all are subscribed', () => live.every(({ seen }) => seen.length === 1))
    const failed = failOneOfMany()
    await parley.send(people[0]!, spaceId, 'one')
    await parley.send(people[0]!, spaceId, 'two')
    await until('all have the event', () => live.every(({ seen }) => textsOf(seen).includes('two')))
    expect(failed).toHaveLength(1)
    for (const { seen } of live) expect(textsOf(seen)).toEqual(['one', 'two'])
    for (const { stop } of live) stop()
  })

  test('reaches all who resume with it, once and in order', async () => {
    const [first] = await watchAll()
    const { cursor } = (await first!.first(() => true)).spaceMessages
    await parley.app.platform.log.append(`space:${spaceId}`, { type: 'SpaceUpdated' })
    await parley.send(people[0]!, spaceId, 'three')
    await parley.send(people[0]!, spaceId, 'four')
    await until('the event is published', () => textsOf(first!.seen).includes('four'))
    const followers = () => parley.app.platform.log.stats().followers
    const before = followers()
    const failed = failOneOfMany(async () => {
      await until('all are subscribed', () => followers() === before + people.length)
      for (let round = 0; round < 50; round++) await new Promise((next) => setImmediate(next))
    })
    const back = await watchAll(cursor)
    await until('all have the event', () => back.every(({ seen }) => textsOf(seen).includes('four')))
    expect(failed).toHaveLength(1)
    for (const { seen } of back) expect(textsOf(seen)).toEqual(['three', 'four'])
    for (const { stop } of back) stop()
  })
})
