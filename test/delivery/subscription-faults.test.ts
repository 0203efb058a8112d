import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { decodeCursor, encodeCursor } from '../../src/broker/cursor.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const QUERY = `
  subscription ($spaceId: ID!, $after: StreamCursor) {
    spaceMessages(spaceId: $spaceId, after: $after) { __typename cursor ... on MessagePosted { message { text } } }
  }`

type Data = { spaceMessages: { __typename: string; cursor: string } }
const typesOf = (seen: Data[]) => seen.map(({ spaceMessages }) => spaceMessages.__typename)

describe('among subscriptions that share an operation', () => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
  })
  afterAll(() => parley?.close())

  test('only the subscription whose membership cannot be looked up ends', async () => {
    const [ada, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const space = await parley.space(ada, [])
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: bob.id })
    const watch = async (viewer: typeof ada) => {
      const live = (await parley.clientOf(viewer)).subscribe<Data, object>(QUERY, { spaceId: space.id })
      await until('the subscription has started', () => live.seen.length > 0)
      return live
    }
    const [left, stays] = [await watch(bob), await watch(ada)]
    const { visibility } = parley.app.domain
    const { spaces } = visibility
    let failed = 0
    visibility.spaces = async (viewer, ids) => {
      if (viewer.id !== bob.id) return spaces(viewer, ids)
      failed += 1
      throw new Error('the database is away')
    }
    await parley.app.domain.members.remove(ada, { spaceId: space.id, entityId: bob.id })
    await until('the lookup of his membership fails', () => failed > 0)
    visibility.spaces = spaces
    expect(await left.ended).toMatchObject([{ extensions: { code: 'FORBIDDEN' } }])
    await parley.send(ada, space.id, 'still here')
    await until('the other one continues', () => typesOf(stays.seen).includes('MessagePosted'))
  })

  test('a subscription with a cursor ahead of the log starts again with a snapshot', async () => {
    const ada = await parley.human('Ada')
    const space = await parley.space(ada, [])
    const client = await parley.clientOf(ada)
    const first = client.subscribe<Data, object>(QUERY, { spaceId: space.id })
    const { spaceMessages } = await until('there is a cursor', () => first.seen[0])
    const { epoch, offset } = decodeCursor(spaceMessages.cursor)
    const after = encodeCursor({ epoch, offset: offset + 100 })
    const ahead = client.subscribe<Data, object>(QUERY, { spaceId: space.id, after })
    await until('the subscriber gets a snapshot', () => ahead.seen.length > 0)
    await parley.send(ada, space.id, 'hello')
    await until('the subscriber gets later events', () => typesOf(ahead.seen).includes('MessagePosted'))
    expect(typesOf(ahead.seen)[0]).toBe('SpaceSnapshot')
  })
})

describe('over HTTP', () => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
  })
  afterAll(() => parley?.close())

  test.each(['application/json', 'application/graphql-response+json', 'multipart/mixed', 'text/html'])(
    'a subscription whose results %s cannot represent gets an error, and leaves nothing behind',
    async (accept) => {
      const ada = await parley.human('Ada')
      await parley.space(ada, [])
      const listened = listenersOf(parley)
      const headers = {
        authorization: `Bearer ${await parley.tokenOf(ada)}`,
        'content-type': 'application/json',
        accept,
      }
      const body = JSON.stringify({ query: 'subscription { viewerEvents { __typename } }' })
      const response = await fetch(`${parley.origin}/graphql`, { method: 'POST', headers, body })
      expect(response.status).toBe(406)
      expect(await response.json()).toMatchObject({
        errors: [{ message: expect.stringContaining('text/event-stream') }],
      })
      expect(listened.begun()).toBeGreaterThan(0)
      await until('there are no listeners', () => listened.open() === 0)
      listened.restore()
    },
  )
})

/** Counts the listeners that are added from now on and not removed. */
function listenersOf({ app }: TestServer) {
  const { signals } = app.platform
  const { subscribe } = signals
  let [begun, left] = [0, 0]
  signals.subscribe = async (...given) => {
    const leave = await subscribe(...given)
    begun += 1
    return () => {
      left += 1
      leave()
    }
  }
  return { begun: () => begun, open: () => begun - left, restore: () => Object.assign(signals, { subscribe }) }
}
