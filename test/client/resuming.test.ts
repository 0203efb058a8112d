import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Connection, createConnection } from '../../client/connection.ts'
import { liveSpace } from '../../client/live-space.ts'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { when } from '../support/live-state.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

/** A message that a socket received for a subscription, as far as the test reads it. */
interface Arrived {
  type: string
  payload: { data?: { spaceMessages?: { __typename: string; message?: { parts: { text?: string }[] } } } } & {
    extensions: { code: string }
  }[]
}

describe('a subscription to a space that the server ended with an error', () => {
  let parley: TestServer
  let connection: Connection
  let ada: HumanViewer
  const arrived: Arrived[] = []

  beforeAll(async () => {
    parley = await startTestServer({ worker: false, settings: { PARLEY_LOG_LEVEL: 'silent' } })
    ada = await parley.human('Ada')
    class Watched extends WebSocket {
      constructor(url: string, protocols?: string | string[]) {
        super(url, protocols)
        this.addEventListener('message', ({ data }) => arrived.push(JSON.parse(String(data))))
      }
    }
    connection = createConnection({
      url: parley.origin,
      token: await parley.tokenOf(ada),
      webSocketImpl: Watched,
    })
  })
  afterEach(() => {
    vi.restoreAllMocks()
    arrived.length = 0
  })
  afterAll(async () => {
    connection?.close()
    await parley?.close()
  })

  const faults = () => arrived.flatMap(({ type, payload }) => (type === 'error' ? payload[0]?.extensions.code : []))
  const events = () => arrived.flatMap(({ payload }) => payload?.data?.spaceMessages ?? [])
  const posted = () => events().flatMap(({ message }) => message?.parts[0]?.text ?? [])
  const fail = () => vi.spyOn(parley.app.domain.reading, 'getMany').mockRejectedValue(new Error('the database is away'))

  test('resumes at its cursor as often as needed, with each event once and in order', async () => {
    const space = await parley.space(ada, [])
    const live = liveSpace(connection, { spaceId: space.id, withActivity: false })
    const statuses = new Set<string>()
    const stop = live.subscribe(() => statuses.add(live.getState().status))
    await when(live, ({ status }) => status === 'live')
    await parley.send(ada, space.id, 'one')
    await when(live, ({ messages }) => messages.length === 1)
    const lookUp = fail()
    await parley.send(ada, space.id, 'two')
    await parley.send(ada, space.id, 'three')
    await until('the subscription was closed, retried, and closed', () => faults().length >= 2)
    await parley.send(ada, space.id, 'four')
    lookUp.mockRestore()
    const { messages } = await when(live, (state) => state.messages.length >= 4)
    await parley.send(ada, space.id, 'five')
    await when(live, (state) => state.messages.length >= 5)
    stop()
    expect(new Set(faults())).toEqual(new Set(['INTERNAL_SERVER_ERROR']))
    expect(posted()).toEqual(['one', 'two', 'three', 'four', 'five'])
    expect(events().filter(({ __typename }) => __typename === 'SpaceSnapshot')).toHaveLength(1)
    expect(messages.map(({ parts }) => parts[0])).toMatchObject(
      ['one', 'two', 'three', 'four'].map((text) => ({ text })),
    )
    expect([...statuses]).toEqual(['live'])
  })

  test('continues with the event that failed, after those before it', async () => {
    const space = await parley.space(ada, [])
    const live = liveSpace(connection, { spaceId: space.id, withActivity: false })
    const stop = live.subscribe(() => {})
    await when(live, ({ status }) => status === 'live')
    const { getMany } = parley.app.domain.reading
    const lookUp = vi.spyOn(parley.app.domain.reading, 'getMany').mockImplementation(async (ids) => {
      const found = await getMany(ids)
      if (JSON.stringify(found).includes('three')) throw new Error('the database is away')
      return found
    })
    for (const text of ['one', 'two', 'three', 'four']) await parley.send(ada, space.id, text)
    await until('the subscription was closed', () => faults().length > 0)
    expect(posted()).toEqual(['one', 'two'])
    lookUp.mockRestore()
    await when(live, ({ messages }) => messages.length >= 4)
    stop()
    expect(posted()).toEqual(['one', 'two', 'three', 'four'])
    expect(events().filter(({ __typename }) => __typename === 'SpaceSnapshot')).toHaveLength(1)
  })
})
