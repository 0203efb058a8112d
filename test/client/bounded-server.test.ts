import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Connection, createConnection } from '../../client/connection.ts'
import { ParleyError } from '../../client/errors.ts'
import { liveSpace } from '../../client/live-space.ts'
import { liveViewer } from '../../client/live-viewer.ts'
import { SPACE_MESSAGES } from '../../client/operations.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const TOO_COMPLEX = new ParleyError('The response would be too large. Ask for fewer items.', 'QUERY_TOO_COMPLEX')
const RATE_LIMITED = new ParleyError('Too many requests.', 'RATE_LIMITED', 2000)

const message = (seq: number) => ({ id: `msg_${seq}`, seq, status: 'COMPLETE', parts: [], outcomes: [], sender: {} })
const pageOf = (seqs: number[], hasPreviousPage: boolean) => ({
  edges: seqs.map((seq) => ({ node: message(seq) })),
  pageInfo: { hasPreviousPage },
})

type Handler = (data: unknown) => void

/** Creates a connection whose server sends the test's messages, and answers requests with `ask`. */
function connectionTo(ask: (variables: Record<string, unknown>) => unknown) {
  const handlers: Handler[] = []
  const connection = {
    watch(_operation: unknown, _variables: unknown, { onData }: { onData: Handler }) {
      handlers.push(onData)
      return () => {}
    },
    ask: async (_operation: unknown, variables: Record<string, unknown>) => ask(variables),
  } as unknown as Connection
  const send = (data: unknown) => {
    for (const handle of handlers) handle(data)
  }
  return { connection, send }
}

describe('a server that bounds its responses', () => {
  afterEach(() => vi.useRealTimers())

  test('returns fewer messages than requested: pageInfo says whether more exist', async () => {
    const pages = [pageOf([3], true), pageOf([1, 2], false)]
    const { connection, send } = connectionTo(() => ({ space: { messages: pages.shift() } }))
    const live = liveSpace(connection, { spaceId: 'spc_1', withActivity: false })
    live.subscribe(() => {})
    const space = { id: 'spc_1', members: [], firstUnreadMessage: null, messages: pageOf([4, 5], true) }
    send({ spaceMessages: { __typename: 'SpaceSnapshot', cursor: 'a', space } })
    expect(live.getState().hasEarlier).toBe(true)
    await live.loadUntil(1)
    expect(live.getState().messages.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5])
    expect(live.getState().hasEarlier).toBe(false)
  })

  test('refuses a page as too large: the client requests smaller pages, down to one message', async () => {
    const sizes: unknown[] = []
    const { connection, send } = connectionTo(({ last }) => {
      sizes.push(last)
      if (Number(last) > 1) throw TOO_COMPLEX
      return { space: { messages: pageOf([4], true) } }
    })
    const live = liveSpace(connection, { spaceId: 'spc_1', withActivity: false })
    live.subscribe(() => {})
    const space = { id: 'spc_1', members: [], firstUnreadMessage: null, messages: pageOf([5], true) }
    send({ spaceMessages: { __typename: 'SpaceSnapshot', cursor: 'a', space } })
    await live.loadEarlier()
    expect(sizes).toEqual([50, 12, 3, 1])
    expect(live.getState()).toMatchObject({ hasEarlier: true, isLoadingEarlier: false })
  })

  test('refuses even one message: the client reports the error, and can retry', async () => {
    let isRefusing = true
    const { connection, send } = connectionTo(() => {
      if (isRefusing) throw TOO_COMPLEX
      return { space: { messages: pageOf([4], false) } }
    })
    const live = liveSpace(connection, { spaceId: 'spc_1', withActivity: false })
    live.subscribe(() => {})
    const space = { id: 'spc_1', members: [], firstUnreadMessage: null, messages: pageOf([5], true) }
    send({ spaceMessages: { __typename: 'SpaceSnapshot', cursor: 'a', space } })
    await expect(live.loadEarlier()).rejects.toThrow('Ask for fewer items.')
    expect(live.getState()).toMatchObject({ hasEarlier: true, isLoadingEarlier: false })
    isRefusing = false
    await live.loadEarlier()
    expect(live.getState().messages).toHaveLength(2)
  })

  test('limits the rate while spaces are listed: the list continues after a wait, with smaller pages if needed', async () => {
    vi.useFakeTimers()
    const asked: unknown[] = []
    const { connection, send } = connectionTo(({ after, first }) => {
      asked.push([after, first])
      if (asked.length === 2) throw RATE_LIMITED
      if (Number(first) > 25) throw TOO_COMPLEX
      const node = { id: `spc_${asked.length}`, createdAt: '', unreadCount: 0, lastMessage: null }
      return { spaces: { edges: [{ node }], pageInfo: { hasNextPage: after === null, endCursor: 'c' } } }
    })
    const live = liveViewer(connection)
    live.subscribe(() => {})
    send({ viewerEvents: { __typename: 'ViewerSnapshot', viewer: { id: 'v', pendingToolCalls: [], unreadCount: 0 } } })
    await vi.advanceTimersByTimeAsync(1900)
    expect(asked).toHaveLength(2)
    await vi.advanceTimersByTimeAsync(200)
    expect(live.getState()).toMatchObject({ hasAllSpaces: true, error: null })
    expect(live.getState().spaces).toHaveLength(2)
  })

  test('sends unknown kinds of events and parts: the client keeps the known ones', () => {
    const { connection, send } = connectionTo(() => ({}))
    const live = liveSpace(connection, { spaceId: 'spc_1', withActivity: false })
    live.subscribe(() => {})
    const space = { id: 'spc_1', members: [], firstUnreadMessage: null, messages: pageOf([1], false) }
    send({ spaceMessages: { __typename: 'SpaceSnapshot', cursor: 'a', space } })
    send({ spaceMessages: { __typename: 'MessageSung', cursor: 'b', melody: 'la' } })
    const part = { __typename: 'SongPart', id: 'p', index: 0 }
    send({ spaceMessages: { __typename: 'MessagePosted', cursor: 'c', message: { ...message(2), parts: [part] } } })
    expect(live.getState()).toMatchObject({ status: 'live', error: null })
    expect(live.getState().messages.map(({ seq }) => seq)).toEqual([1, 2])
  })
})

describe('an event that cannot be read', () => {
  let parley: TestServer
  let connection: Connection

  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
  })
  afterAll(async () => {
    connection?.close()
    await parley?.close()
  })

  test('is skipped: its subscription and the other subscriptions of the socket continue', async () => {
    const said = vi.spyOn(console, 'error').mockImplementation(() => {})
    const ada = await parley.human('Ada')
    const space = await parley.space(ada, [])
    connection = createConnection({ url: parley.origin, token: await parley.tokenOf(ada) })
    const ends: unknown[] = []
    let unread = 0
    const variables = { spaceId: space.id, after: null }
    connection.watch(SPACE_MESSAGES, variables, {
      onData() {
        unread += 1
        throw new TypeError('cannot read this')
      },
      onEnd: (error) => ends.push(error),
    })
    const live = liveSpace(connection, { spaceId: space.id, withActivity: false })
    live.subscribe(() => {})
    await until('both got the snapshot', () => live.getState().status === 'live' && unread === 1)
    await parley.send(ada, space.id, 'one')
    await until('both got the message', () => live.getState().messages.length === 1 && unread >= 2)
    expect(ends).toEqual([])
    expect(said).toHaveBeenCalled()
  })
})
