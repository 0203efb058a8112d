import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { startTestServer, type TestServer } from '../support/served.ts'

const HUMANS = ['Ada', 'Bob', 'Cleo', 'Dan']

interface Event {
  __typename: string
  cursor: string
  delta?: string
  message?: { text: string; space: { unreadCount: number } }
}
type Data = { spaceMessages: Event }

const watching = (selection: string) => `subscription Watch($spaceId: ID!, $after: StreamCursor) {
  spaceMessages(spaceId: $spaceId, after: $after) { __typename cursor ${selection} ... on MessageTextDelta { delta } }
}`
const COMMON = watching(
  '... on MessagePosted { message { text run { id } idempotencyKey origin { triggerType } space { name } } }',
)
const PERSONAL = watching('... on MessagePosted { message { text space { unreadCount } } }')

describe('an event for many subscribers', () => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
  })
  afterAll(() => parley?.close())
  afterEach(() => vi.restoreAllMocks())

  /** Creates a space of four humans, each with a client that has followed the space since its message. */
  async function watched(document: string) {
    const humans = await Promise.all(HUMANS.map((name) => parley.human(name)))
    const [ada, ...others] = humans
    const space = await parley.space(ada!, [])
    for (const { id } of others) await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: id })
    const { message } = await parley.send(ada!, space.id, 'Good morning!')
    const clients = await Promise.all(humans.map((human) => parley.clientOf(human)))
    const watch = (after?: string) =>
      clients.map((client) => client.subscribe<Data, object>(document, { spaceId: space.id, after }))
    const append = (event: { type: string; [field: string]: unknown }) =>
      parley.app.platform.log.append(`space:${space.id}`, event)
    return { ada: ada!, message, watch, append }
  }

  test('is looked up once if all see the same', async () => {
    const { message, watch, append } = await watched(COMMON)
    const live = watch()
    await Promise.all(live.map((one) => one.first(({ spaceMessages }) => spaceMessages.__typename === 'SpaceSnapshot')))
    const lookUp = vi.spyOn(parley.app.domain.reading, 'getMany')
    await append({ type: 'MessagePosted', messageId: message.id })
    for (const one of live) {
      const { spaceMessages } = await one.first(({ spaceMessages }) => spaceMessages.__typename === 'MessagePosted')
      expect(spaceMessages.message?.text).toBe('Good morning!')
      one.stop()
    }
    expect(lookUp).toHaveBeenCalledTimes(1)
  })

  test('is looked up once for clients that have resumed at different positions', async () => {
    const { message, watch, append } = await watched(COMMON)
    const cursors: string[] = []
    for (let offset = 0; offset < 4; offset++) {
      const result = await append({ type: 'MessageTextDelta', messageId: message.id, partIndex: 0, offset, delta: '.' })
      if (result.type === 'appended') cursors.push(result.cursor)
    }
    const live = cursors.slice(0, -1).flatMap((cursor) => watch(cursor))
    for (const one of live) await one.first(({ spaceMessages }) => spaceMessages.cursor === cursors.at(-1))
    const lookUp = vi.spyOn(parley.app.domain.reading, 'getMany')
    await append({ type: 'MessagePosted', messageId: message.id })
    for (const one of live) {
      await one.first(({ spaceMessages }) => spaceMessages.__typename === 'MessagePosted')
      one.stop()
    }
    expect(lookUp).toHaveBeenCalledTimes(1)
  })

  test('gets personal payloads if the clients see different things, while the events in between are still shared', async () => {
    const { message, watch, append } = await watched(PERSONAL)
    const live = watch()
    await Promise.all(live.map((one) => one.first(({ spaceMessages }) => spaceMessages.__typename === 'SpaceSnapshot')))
    await append({ type: 'MessageTextDelta', messageId: message.id, partIndex: 0, offset: 0, delta: 'a' })
    await append({ type: 'MessagePosted', messageId: message.id })
    await append({ type: 'MessageTextDelta', messageId: message.id, partIndex: 0, offset: 1, delta: 'b' })
    const unread: (number | undefined)[] = []
    for (const one of live) {
      await one.first(({ spaceMessages }) => spaceMessages.delta === 'b')
      const types = one.seen.map(({ spaceMessages }) => spaceMessages.__typename)
      expect(types).toEqual(['SpaceSnapshot', 'MessageTextDelta', 'MessagePosted', 'MessageTextDelta'])
      unread.push(one.seen[2]?.spaceMessages.message?.space.unreadCount)
      one.stop()
    }
    expect(unread).toEqual([0, 1, 1, 1])
  })

  test('reaches all who resume at the same time, from any position', async () => {
    const { message, watch, append } = await watched(COMMON)
    const cursors: string[] = []
    for (let n = 0; n < 50; n++) {
      const delta = { type: 'MessageTextDelta', messageId: message.id, partIndex: 0, offset: n, delta: `${n};` }
      const result = await append(delta)
      if (result.type === 'appended') cursors.push(result.cursor)
    }
    const groups = cursors.slice(0, 20).map((cursor) => watch(cursor))
    for (const [index, group] of groups.entries()) {
      for (const one of group) {
        await one.first(({ spaceMessages }) => spaceMessages.cursor === cursors.at(-1))
        const deltas = one.seen.map(({ spaceMessages }) => spaceMessages.delta)
        expect(deltas).toEqual(Array.from({ length: 49 - index }, (_, n) => `${n + index + 1};`))
        one.stop()
      }
    }
  })
})
