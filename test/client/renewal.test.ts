import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { type Connection, createConnection } from '../../client/connection.ts'
import { liveSpace } from '../../client/live-space.ts'
import { liveViewer } from '../../client/live-viewer.ts'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { when } from '../support/live-state.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

describe('a connection whose token ends', () => {
  let parley: TestServer
  let ada: HumanViewer
  let spaceId: string
  let sockets: WebSocket[]
  /** The types of the events of `spaceMessages`, from all sockets. */
  let events: string[]
  let connection: Connection

  beforeAll(async () => {
    parley = await startTestServer({ stack: 'embedded', worker: false, settings: { PARLEY_LOG_LEVEL: 'silent' } })
    ada = await parley.human('Ada')
  })
  beforeEach(async () => {
    sockets = []
    events = []
    spaceId = (await parley.space(ada, [])).id
  })
  afterEach(() => {
    connection.close()
    vi.unstubAllGlobals()
  })
  afterAll(() => parley?.close())

  class Watched extends WebSocket {
    constructor(url: string, protocols?: string | string[]) {
      super(url, protocols)
      sockets.push(this)
      this.addEventListener('message', ({ data }) => {
        const event = JSON.parse(String(data)).payload?.data?.spaceMessages
        if (event) events.push(event.__typename)
      })
    }
  }

  const issue = () => parley.app.domain.tokens.create(parley.admin, { grant: { humanId: ada.id } })
  const revoke = ({ accessToken }: Awaited<ReturnType<typeof issue>>) =>
    parley.app.domain.tokens.revoke(parley.admin, { id: accessToken.id })

  function follow(token: string | (() => string)) {
    connection = createConnection({ url: parley.origin, token, webSocketImpl: Watched })
    const space = liveSpace(connection, { spaceId })
    const viewer = liveViewer(connection)
    const statuses = new Set<string>()
    space.subscribe(() => statuses.add(space.getState().status))
    viewer.subscribe(() => {})
    return { space, viewer, statuses }
  }
  const textsOf = ({ messages }: { messages: readonly { parts: readonly object[] }[] }) =>
    messages.map(({ parts }) => (parts[0] as { text: string }).text)

  test('continues all views with a new token, from their cursors, as often as tokens end', async () => {
    let current = await issue()
    const { space, viewer, statuses } = follow(() => current.secret)
    await Promise.all([when(space, ({ status }) => status === 'live'), when(viewer, ({ status }) => status === 'live')])
    const texts: string[] = []
    for (const text of ['one', 'two', 'three']) {
      const ended = current
      current = await issue()
      await revoke(ended)
      await parley.send(ada, spaceId, text)
      texts.push(text)
      const state = await when(space, ({ messages }) => messages.length >= texts.length)
      expect(textsOf(state)).toEqual(texts)
      await when(viewer, ({ spaces }) => spaces.some(({ lastMessage }) => lastMessage?.text === text))
    }
    expect([...statuses]).toEqual(['live'])
    expect(viewer.getState().status).toBe('live')
    expect(connection.getState()).toBe('live')
    expect(events).toEqual(['SpaceSnapshot', 'MessagePosted', 'MessagePosted', 'MessagePosted'])
    expect(sockets.filter(({ readyState }) => readyState === WebSocket.OPEN)).toHaveLength(1)
  })

  test('continues if the token ended while the socket was lost: the server closes the next one with 4403', async () => {
    const [ended, next] = [await issue(), await issue()]
    const tokens: string[] = []
    const { space } = follow(() => {
      // The second opening still has the token of the first.
      tokens.push(tokens.length < 2 ? ended.secret : next.secret)
      return tokens.at(-1) ?? ''
    })
    await when(space, ({ status }) => status === 'live')
    sockets[0]?.close(4000, 'cut by the test')
    await revoke(ended)
    await parley.send(ada, spaceId, 'hello')
    expect(textsOf(await when(space, ({ messages }) => messages.length === 1))).toEqual(['hello'])
    expect(tokens.slice(-1)).toEqual([next.secret])
    expect(events).toEqual(['SpaceSnapshot', 'MessagePosted'])
  })

  test('ends for good if the new token is refused as well', async () => {
    const only = await issue()
    let calls = 0
    const { space, viewer } = follow(() => {
      calls += 1
      return only.secret
    })
    await when(space, ({ status }) => status === 'live')
    await when(viewer, ({ hasAllSpaces }) => hasAllSpaces)
    const before = { calls, sockets: sockets.length }
    await revoke(only)
    const [state] = await Promise.all([
      when(space, ({ status }) => status === 'ended'),
      when(viewer, ({ status }) => status === 'ended'),
    ])
    expect(state.error).toMatchObject({ code: 'UNAUTHENTICATED' })
    expect(viewer.getState().error).toMatchObject({ code: 'UNAUTHENTICATED' })
    await until('the connection is refused', () => connection.getState() === 'refused')
    expect({ calls: calls - before.calls, sockets: sockets.length - before.sockets }).toEqual({ calls: 1, sockets: 1 })
  })

  test('tries a first token that is refused once more, but a token that cannot change not again', async () => {
    const good = await issue()
    const tokens = ['nonsense', good.secret]
    const renewed = follow(() => tokens.shift() ?? good.secret)
    await when(renewed.space, ({ status }) => status === 'live')
    connection.close()
    sockets = []
    const { space } = follow('nonsense')
    const { error } = await when(space, ({ status }) => status === 'ended')
    expect(error).toMatchObject({ code: 'UNAUTHENTICATED' })
    expect([connection.getState(), sockets.length]).toEqual(['refused', 1])
  })

  test('says in a runtime without WebSocket what it needs, and requests need nothing', async () => {
    const { secret } = await issue()
    vi.stubGlobal('WebSocket', undefined)
    connection = createConnection({ url: parley.origin, token: secret })
    const space = liveSpace(connection, { spaceId })
    expect(() => space.subscribe(() => {})).toThrow('Use Node 22 or newer, or install the package ws')
    await space.send({ text: 'hello' })
  })
})
