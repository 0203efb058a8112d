import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { RULE_STACKS } from '../support/application.ts'
import { createParleyClient, type ParleyClient } from '../support/parley-client.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const CHANGES = '... on MemberPresenceChanged { changes { entity { id name } presence typingUntil } }'
const WATCH = `subscription ($spaceId: ID!, $after: StreamCursor) {
  spaceMessages(spaceId: $spaceId, after: $after) { __typename cursor at ${CHANGES} } }`
const PLAIN = 'subscription ($spaceId: ID!) { spaceMessages(spaceId: $spaceId) { __typename cursor } }'
const PRESENCE = 'query ($id: ID!) { node(id: $id) { ... on Human { presence } } }'
const TYPE = `mutation ($spaceId: ID!) { setTyping(input: { spaceId: $spaceId }) { __typename
  ... on SetTypingPayload { typingUntil } ... on RateLimitedError { retryAfterMs } ... on Error { code } } }`
const ACT_AS = 'mutation ($id: ID!) { actAs(input: { humanId: $id }) { ... on ActAsPayload { secret } } }'
const SEND = 'mutation ($id: ID!) { sendMessage(input: { spaceId: $id, text: "Hi" }) { __typename } }'
const SHARE = `mutation ($id: ID!, $on: Boolean!) { updateHuman(input: { id: $id, sharePresence: $on }) { __typename } }`

interface Event {
  spaceMessages: {
    __typename: string
    cursor: string
    at: string
    changes?: { entity: { id: string; name: string }; presence: string; typingUntil: string | null }[]
  }
}

const changeOf = ({ spaceMessages: { changes = [] } }: Event, human: HumanViewer) =>
  changes.find(({ entity }) => entity.id === human.id)
const isShown =
  (human: HumanViewer, presence: string) =>
  (event: Event): boolean =>
    changeOf(event, human)?.presence === presence
const isTyping = (human: HumanViewer) => (event: Event) => changeOf(event, human)?.typingUntil != null

async function presenceFor(client: ParleyClient, human: HumanViewer): Promise<string | undefined> {
  const { data } = await client.ask<{ node: { presence: string } | null }>(PRESENCE, { id: human.id })
  return data?.node?.presence
}

describe.each(RULE_STACKS)('presence on the %s stack', (stack) => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({ stack, worker: false })
  })
  afterAll(() => parley?.close())

  /** Creates two people in a space, the first of whom follows it. */
  async function pair() {
    const [ada, bea] = [await parley.human('Ada'), await parley.human('Bea')]
    const space = await parley.space(ada, [])
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: bea.id })
    const [client, other] = [await parley.clientOf(ada), await parley.clientOf(bea)]
    const events = client.subscribe<Event, object>(WATCH, { spaceId: space.id })
    await events.first(({ spaceMessages }) => spaceMessages.__typename === 'SpaceSnapshot')
    const type = () =>
      other.ask<{ setTyping: { __typename: string; typingUntil?: string } }>(TYPE, { spaceId: space.id })
    return { ada, bea, space, client, other, events, type }
  }

  test('a human with an open socket is ONLINE for those who share a space, and OFFLINE for others and soon after it is closed', async () => {
    const { ada, bea, client, other, events } = await pair()
    expect(await presenceFor(client, bea)).toBe('OFFLINE')
    await other.connect()
    expect(await events.first(isShown(bea, 'ONLINE'))).toMatchObject({
      spaceMessages: { changes: [{ entity: { name: 'Bea' }, typingUntil: null }] },
    })
    expect(await presenceFor(client, bea)).toBe('ONLINE')
    expect(await presenceFor(other, ada)).toBe('ONLINE')
    expect(await presenceFor(client, ada)).toBe('ONLINE')
    expect(await presenceFor(await parley.clientOf(parley.admin), bea)).toBe('ONLINE')
    const stranger = await parley.clientOf(await parley.human('Eve'))
    expect([undefined, 'OFFLINE']).toContain(await presenceFor(stranger, bea))
    await other.close()
    await events.first(isShown(bea, 'OFFLINE'))
    expect(await presenceFor(client, bea)).toBe('OFFLINE')
  })

  test('an admin who acts as a human does not make them ONLINE', async () => {
    const { bea, client } = await pair()
    const { actAs } =
      (await (await parley.clientOf(parley.admin)).ask<{ actAs: { secret: string } }>(ACT_AS, { id: bea.id })).data ??
      {}
    const acting = createParleyClient({ origin: parley.origin, token: actAs?.secret ?? '' })
    await acting.connect()
    expect(
      (await acting.ask<{ viewer: { human: { id: string } } }>('{ viewer { human { id } } }')).data?.viewer.human.id,
    ).toBe(bea.id)
    expect(await presenceFor(client, bea)).toBe('OFFLINE')
    await acting.close()
  })

  test('a connection that returns quickly changes nothing', async () => {
    const { bea, space, other, events } = await pair()
    await other.connect()
    await events.first(isShown(bea, 'ONLINE'))
    await other.close()
    const again = await parley.clientOf(bea)
    await again.connect()
    const third = await parley.human('Cyd')
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: third.id })
    await (await parley.clientOf(third)).connect()
    await events.first(isShown(third, 'ONLINE'))
    expect(events.seen.filter((event) => changeOf(event, bea) !== undefined)).toHaveLength(1)
  })

  test('a typing person is shown to members until they send, and to nobody else', async () => {
    const { bea, space, events, type } = await pair()
    const stranger = await parley.clientOf(await parley.human('Eve'))
    expect(await stranger.ask(TYPE, { spaceId: space.id })).toMatchObject({
      data: { setTyping: { __typename: 'NotFoundError', code: 'NOT_FOUND' } },
    })
    const admin = await parley.clientOf(parley.admin)
    expect(await admin.ask(TYPE, { spaceId: space.id })).toMatchObject({
      data: { setTyping: { __typename: 'ForbiddenError' } },
    })
    const answer = (await type()).data?.setTyping
    const shown = changeOf(await events.first(isTyping(bea)), bea)
    expect(Math.abs(Date.parse(shown?.typingUntil ?? '') - Date.parse(answer?.typingUntil ?? ''))).toBeLessThan(100)
    const other = await parley.clientOf(bea)
    await other.ask(SEND, { id: space.id })
    await until('the typing has ended', () => {
      const last = events.seen.findLast((event) => changeOf(event, bea) !== undefined)
      return last !== undefined && changeOf(last, bea)?.typingUntil === null
    })
  })

  test('people who do not share their presence are OFFLINE for all others, at once, and cause no events', async () => {
    const { ada, bea, space, client, other, events, type } = await pair()
    await other.connect()
    await events.first(isShown(bea, 'ONLINE'))
    await other.ask(SHARE, { id: bea.id, on: false })
    await events.first(isShown(bea, 'OFFLINE'))
    expect(await presenceFor(client, bea)).toBe('OFFLINE')
    expect(await presenceFor(await parley.clientOf(parley.admin), bea)).toBe('OFFLINE')
    expect((await type()).data?.setTyping.__typename).toBe('SetTypingPayload')
    await client.ask(TYPE, { spaceId: space.id })
    await events.first(isTyping(ada))
    expect(events.seen.some(isTyping(bea))).toBe(false)
    await other.ask(SHARE, { id: bea.id, on: true })
    await until('Bea is shown again', () => isShown(bea, 'ONLINE')(events.seen.at(-1)!))
  })

  test('events are limited to one a second, keep the cursor of the last stored event, and are not replayed', async () => {
    const { ada, bea, space, client, other, events, type } = await pair()
    const snapshot = events.seen[0]?.spaceMessages.cursor ?? ''
    await other.connect()
    expect((await events.first(isShown(bea, 'ONLINE'))).spaceMessages.cursor).toBe(snapshot)
    await parley.app.domain.sending.send(bea, { spaceId: space.id, text: 'Hi' })
    const { cursor } = (await events.first((event) => event.spaceMessages.__typename === 'MessagePosted')).spaceMessages
    const presenceEvents = () => events.seen.filter(({ spaceMessages }) => spaceMessages.changes !== undefined)
    for (let turn = 0; turn < 2; turn++) {
      await type()
      await until('Bea is shown typing', () =>
        presenceEvents().some((event, n) => n > 2 * turn && isTyping(bea)(event)),
      )
      await other.ask(SEND, { id: space.id })
      await until('the typing has ended', () => presenceEvents().length > 2 * turn + 2)
    }
    const times = presenceEvents().map(({ spaceMessages }) => Date.parse(spaceMessages.at))
    for (const [n, at] of times.entries()) if (n > 0) expect(at - (times[n - 1] ?? 0)).toBeGreaterThan(950)
    for (const [n, { spaceMessages }] of events.seen.entries()) {
      const before = events.seen[n - 1]?.spaceMessages.cursor
      if (spaceMessages.changes !== undefined) expect(spaceMessages.cursor).toBe(before)
    }
    const resumed = client.subscribe<Event, object>(WATCH, { spaceId: space.id, after: cursor })
    await parley.app.domain.sending.send(ada, { spaceId: space.id, text: 'Last' })
    const total = events.seen.filter(({ spaceMessages }) => spaceMessages.__typename === 'MessagePosted').length
    await until('all messages are replayed', () => resumed.seen.length >= total)
    expect(resumed.seen.every(({ spaceMessages }) => spaceMessages.changes === undefined)).toBe(true)
  })

  test('a subscriber that does not select the changes gets no such event', async () => {
    const { bea, space, client, other, events } = await pair()
    const plain = client.subscribe<Event, object>(PLAIN, { spaceId: space.id })
    await plain.first(() => true)
    await other.connect()
    await events.first(isShown(bea, 'ONLINE'))
    await parley.app.domain.sending.send(bea, { spaceId: space.id, text: 'Hi' })
    await plain.first(({ spaceMessages }) => spaceMessages.__typename === 'MessagePosted')
    expect(plain.seen.map(({ spaceMessages }) => spaceMessages.__typename)).not.toContain('MemberPresenceChanged')
  })

  test('a hostile typist is rate-limited', async () => {
    const { other, space } = await pair()
    const answers = await Promise.all(
      Array.from({ length: 130 }, () => other.ask<{ setTyping: object }>(TYPE, { spaceId: space.id })),
    )
    const limited = answers.filter(({ data }) => JSON.stringify(data).includes('RateLimitedError'))
    expect(limited.length).toBe(10)
    expect(limited[0]).toMatchObject({
      data: { setTyping: { code: 'RATE_LIMITED', retryAfterMs: expect.any(Number) } },
    })
  })
})

describe.skipIf(!hasPostgres)('presence over several processes', () => {
  let one: TestServer
  let two: TestServer

  beforeAll(async () => {
    one = await startTestServer({ stack: 'postgres', worker: false, isFresh: true })
    two = await startTestServer({ stack: 'postgres', worker: false, beside: one })
  })
  afterAll(async () => {
    await two?.close()
    await one?.close()
  })

  test('people of another process appear as present and typing, even if that process starts later or shuts down', async () => {
    const [ada, bea] = [await one.human('Ada'), await one.human('Bea')]
    const space = await one.space(ada, [])
    await one.app.domain.members.add(one.admin, { spaceId: space.id, entityId: bea.id })
    const client = await one.clientOf(ada)
    const events = client.subscribe<Event, object>(WATCH, { spaceId: space.id })
    await events.first(() => true)
    const three = await startTestServer({ stack: 'postgres', worker: false, beside: one })
    const elsewhere = await three.clientOf(bea)
    await elsewhere.connect()
    await events.first(isShown(bea, 'ONLINE'))
    await elsewhere.ask(TYPE, { spaceId: space.id })
    await events.first(isTyping(bea))
    const late = await startTestServer({ stack: 'postgres', worker: false, beside: one })
    const there = await late.clientOf(ada)
    await until('the late process knows Bea', async () => (await presenceFor(there, bea)) === 'ONLINE')
    await late.close()
    await three.close()
    await events.first(isShown(bea, 'OFFLINE'))
  })
})
