import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { type Connection, createConnection } from '../../client/connection.ts'
import { liveSpace } from '../../client/live-space.ts'
import { liveViewer } from '../../client/live-viewer.ts'
import { createRenewedSocket } from '../../client/renewed-socket.ts'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { when } from '../support/live-state.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

describe('a connection whose token expires', () => {
  let parley: TestServer
  let ada: HumanViewer
  let spaceId: string
  let sockets: WebSocket[]
  /** The types of the `spaceMessages` events from all sockets. */
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

  /** The close events that sockets on the slow network have delivered. */
  let lateCloses = 0
  /** A socket whose close event comes later than the first retry. */
  class ClosedLate extends Watched {
    constructor(url: string, protocols?: string | string[]) {
      super(url, protocols)
      const deliver = (listener: ((event: Event) => void) | null, event: Event) => {
        lateCloses += 1
        listener?.(event)
      }
      Object.defineProperty(this, 'onclose', {
        set: (listener: ((event: Event) => void) | null) =>
          this.addEventListener('close', (event) => setTimeout(() => deliver(listener, event), 700)),
      })
    }
  }

  function follow(token: string | (() => string | Promise<string>), webSocketImpl = Watched) {
    connection = createConnection({ url: parley.origin, token, webSocketImpl })
    const space = liveSpace(connection, { spaceId })
    const viewer = liveViewer(connection)
    const statuses = new Set<string>()
    space.subscribe(() => statuses.add(space.getState().status))
    viewer.subscribe(() => {})
    return { space, viewer, statuses }
  }
  const textsOf = ({ messages }: { messages: readonly { parts: readonly object[] }[] }) =>
    messages.map(({ parts }) => (parts[0] as { text: string }).text)

  test('continues all views with a new token, from their cursors, however often tokens expire', async () => {
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

  test('continues if the token expired while the socket was disconnected: the server closes the next socket with 4403', async () => {
    const [ended, next] = [await issue(), await issue()]
    const tokens: string[] = []
    const { space } = follow(() => {
      // The second attempt to open still uses the token of the first attempt.
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

  test('retries once if its first token is refused, but never retries with a token that cannot change', async () => {
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

  function throwAtOnce(): never {
    throw new TypeError('fetch failed')
  }

  test.each<[string, () => Promise<string>]>([
    ['rejects', () => Promise.reject(new TypeError('fetch failed'))],
    ['throws', throwAtOnce],
  ])('continues if the token function %s while the socket is lost', async (_, fail) => {
    const warn = vi.spyOn(console, 'warn').mockReturnValue()
    const { secret } = await issue()
    let isLost = false
    let failures = 0
    const { space, viewer, statuses } = follow(() => {
      if (!isLost || failures === 2) return secret
      failures += 1
      return fail()
    })
    await Promise.all([when(space, ({ status }) => status === 'live'), when(viewer, (state) => state.hasAllSpaces)])
    isLost = true
    sockets[0]?.close(4000, 'cut by the test')
    await parley.send(ada, spaceId, 'hello')
    expect(textsOf(await when(space, ({ messages }) => messages.length === 1))).toEqual(['hello'])
    await when(viewer, ({ spaces }) => spaces.some(({ lastMessage }) => lastMessage?.text === 'hello'))
    expect([[...statuses], viewer.getState().status]).toEqual([['live'], 'live'])
    expect(connection.getState()).toBe('live')
    expect([failures, warn.mock.calls.length]).toEqual([2, 2])
    expect(events).toEqual(['SpaceSnapshot', 'MessagePosted'])
    warn.mockRestore()
  })

  test('continues if the token function rejects, on a network where closing a socket takes long', async () => {
    const warn = vi.spyOn(console, 'warn').mockReturnValue()
    const { secret } = await issue()
    let calls = 0
    const { space } = follow(() => {
      calls += 1
      return calls === 1 ? Promise.reject(new TypeError('fetch failed')) : secret
    }, ClosedLate)
    await when(space, ({ status }) => status === 'live')
    await until('the first socket is closed', () => lateCloses > 0)
    await parley.send(ada, spaceId, 'hello')
    expect(textsOf(await when(space, ({ messages }) => messages.length === 1))).toEqual(['hello'])
    expect([connection.getState(), sockets.length]).toEqual(['live', 2])
    warn.mockRestore()
  })

  test('calls a token function that does not settle a second time', async () => {
    const warn = vi.spyOn(console, 'warn').mockReturnValue()
    const { secret } = await issue()
    let calls = 0
    const socket = createRenewedSocket({
      url: `${parley.origin.replace(/^http/, 'ws')}/graphql`,
      authorization() {
        calls += 1
        return calls === 1 ? new Promise(() => {}) : Promise.resolve(`Bearer ${secret}`)
      },
      canRenew: true,
      webSocketImpl: Watched,
      tokenTimeoutMs: 20,
      tell() {},
    })
    const payload = { query: 'subscription { viewerEvents { __typename } }' }
    const first = await new Promise((next, error) => socket.client().subscribe(payload, { next, error, complete() {} }))
    socket.close()
    expect(first).toEqual({ data: { viewerEvents: { __typename: 'ViewerSnapshot' } } })
    expect(calls).toBe(2)
    expect(warn).toHaveBeenCalledWith(
      expect.any(String),
      new Error('The token function did not return a token within 0.02 s.'),
    )
    warn.mockRestore()
  })

  test('without WebSocket in the runtime reports what it needs, and requests work without it', async () => {
    const { secret } = await issue()
    vi.stubGlobal('WebSocket', undefined)
    connection = createConnection({ url: parley.origin, token: secret })
    const space = liveSpace(connection, { spaceId })
    expect(() => space.subscribe(() => {})).toThrow('Use Node 22 or newer, or install the package ws')
    await space.send({ text: 'hello' })
  })
})
