import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { newId } from '../../src/lib/ids.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

interface Message {
  type: string
  id?: string
  // biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
  payload?: any
}

/** Opens a plain socket, and records everything that it receives. */
function open(origin: string, options: WebSocket.ClientOptions = {}, protocol = 'graphql-transport-ws') {
  const socket = new WebSocket(`${origin.replace('http', 'ws')}/graphql`, protocol, options)
  const received: Message[] = []
  const closed = new Promise<number>((resolve) => socket.on('close', resolve))
  const failed = new Promise<string>((resolve) => socket.on('error', ({ message }) => resolve(message)))
  socket.on('message', (data) => received.push(JSON.parse(String(data))))
  const opened = new Promise((resolve) => socket.once('open', resolve))
  return {
    socket,
    received,
    closed,
    failed,
    opened,
    send: (message: unknown) => socket.send(typeof message === 'string' ? message : JSON.stringify(message)),
    got: (type: string, id?: string) =>
      until(`${type} ${id ?? ''} arrives`, () =>
        received.find((message) => message.type === type && message.id === id),
      ),
  }
}

describe('GraphQL over WebSocket', () => {
  let parley: TestServer
  let human: HumanViewer
  let authorization: string

  beforeAll(async () => {
    const settings = { PARLEY_ALLOWED_ORIGINS: 'https://app.example.com', PARLEY_MAX_SOCKETS_PER_VIEWER: '3' }
    parley = await startTestServer({ worker: false, settings })
    human = await parley.human('Ada')
    authorization = `Bearer ${await parley.tokenOf(human)}`
  })
  afterAll(() => parley?.close())

  async function begin(payload: object = { authorization }) {
    const client = open(parley.origin)
    await client.opened
    client.send({ type: 'connection_init', payload })
    await client.got('connection_ack')
    return client
  }

  test('accepts the token in the parameters or in the header', async () => {
    for (const payload of [{ authorization }, { Authorization: authorization }]) {
      const client = await begin(payload)
      client.send({ type: 'subscribe', id: '1', payload: { query: '{ viewer { id } }' } })
      expect((await client.got('next', '1')).payload).toEqual({
        data: { viewer: { id: human.id.replace('hum_', 'viw_') } },
      })
      await client.got('complete', '1')
      client.socket.close()
      await client.closed
    }
    const client = open(parley.origin, { headers: { authorization } })
    await client.opened
    client.send({ type: 'connection_init' })
    await client.got('connection_ack')
    client.socket.close()
    await client.closed
  })

  test('closes with 4403 without a valid token, with 4401 before the acknowledgement, with 4400 on an invalid message', async () => {
    for (const payload of [{}, { authorization: 'Bearer nonsense' }, { authorization: 7 }]) {
      const client = open(parley.origin)
      await client.opened
      client.send({ type: 'connection_init', payload })
      expect(await client.closed).toBe(4403)
    }
    const hasty = open(parley.origin)
    await hasty.opened
    hasty.send({ type: 'subscribe', id: '1', payload: { query: '{ viewer { id } }' } })
    expect(await hasty.closed).toBe(4401)
    const garbled = await begin()
    garbled.send('nonsense')
    expect(await garbled.closed).toBe(4400)
  })

  test('closes with 4408 when no message arrives within 3 s', async () => {
    const client = open(parley.origin)
    await client.opened
    expect(await client.closed).toBe(4408)
  })

  test('supports only graphql-transport-ws', async () => {
    const client = open(parley.origin, {}, 'graphql-ws')
    expect(await Promise.race([client.failed, client.closed])).toBeTruthy()
  })

  test('accepts pages from the same origin and from allowed origins, and no others', async () => {
    for (const origin of [parley.origin, 'https://app.example.com']) {
      const client = open(parley.origin, { origin })
      await client.opened
      client.socket.close()
      await client.closed
    }
    for (const origin of ['https://evil.example.com', 'null', 'http://127.0.0.1:1']) {
      const client = open(parley.origin, { origin })
      expect(await client.failed).toContain('403')
    }
  })

  test('refuses sockets on other paths', async () => {
    const socket = new WebSocket(`${parley.origin.replace('http', 'ws')}/other`, 'graphql-transport-ws')
    expect(await new Promise((resolve) => socket.on('error', ({ message }) => resolve(message)))).toContain('404')
  })

  test('an error in one operation ends only that operation', async () => {
    const client = await begin()
    const space = await parley.space(human, [])
    client.send({
      type: 'subscribe',
      id: 'live',
      payload: { query: `subscription { spaceMessages(spaceId: "${space.id}") { __typename } }` },
    })
    await client.got('next', 'live')
    const faults: [id: string, payload: object, code: string][] = [
      ['syntax', { query: '{ viewer {' }, 'GRAPHQL_PARSE_FAILED'],
      ['field', { query: '{ nothing }' }, 'GRAPHQL_VALIDATION_FAILED'],
      [
        'variable',
        { query: 'query ($n: Int!) { agents(first: $n) { edges { cursor } } }', variables: { n: 'x' } },
        'BAD_USER_INPUT',
      ],
      ['operation', { query: 'query A { __typename } query B { __typename }', operationName: 'C' }, 'BAD_USER_INPUT'],
      [
        'complex',
        {
          query:
            '{ spaces(first: 100) { edges { node { messages(first: 100) { edges { node { id seq text } } } } } } }',
        },
        'QUERY_TOO_COMPLEX',
      ],
      ['absent', { query: `subscription { spaceMessages(spaceId: "${newId('spc')}") { __typename } }` }, 'NOT_FOUND'],
    ]
    for (const [id, payload, code] of faults) {
      client.send({ type: 'subscribe', id, payload })
      const { payload: errors } = await client.got('error', id)
      expect(errors, id).toMatchObject([{ extensions: { code } }])
      expect(JSON.stringify(errors)).not.toMatch(/"http"|Did you mean/)
    }
    await parley.send(human, space.id, 'still here')
    await until('the subscription continues', () => client.received.filter(({ id }) => id === 'live').length === 2)
    client.socket.close()
    await client.closed
  })

  test('supports 100 subscriptions besides queries; one more gets its own error', async () => {
    const client = await begin()
    for (let n = 1; n <= 101; n++) {
      client.send({
        type: 'subscribe',
        id: String(n),
        payload: { query: 'subscription { viewerEvents { __typename } }' },
      })
    }
    expect((await client.got('error', '101')).payload).toMatchObject([
      { message: expect.stringContaining('End some'), extensions: { code: 'RATE_LIMITED', retryAfterMs: 10_000 } },
    ])
    await until(
      '100 subscriptions have started',
      () => client.received.filter(({ type }) => type === 'next').length === 100,
    )
    client.send({ type: 'subscribe', id: 'query', payload: { query: '{ viewer { scope } }' } })
    await client.got('next', 'query')
    client.send({ type: 'complete', id: '7' })
    client.send({ type: 'subscribe', id: 'again', payload: { query: 'subscription { viewerEvents { __typename } }' } })
    await client.got('next', 'again')
    client.socket.close()
    await client.closed
  })

  test('a viewer has as many sockets as the settings allow, and may open another when one closes', async () => {
    const other = await parley.human('Bob')
    const payload = { authorization: `Bearer ${await parley.tokenOf(other)}` }
    const sockets = [await begin(payload), await begin(payload), await begin(payload)]
    const fourth = open(parley.origin)
    await fourth.opened
    fourth.send({ type: 'connection_init', payload })
    expect(await fourth.closed).toBe(1013)
    sockets[0]?.socket.close()
    await sockets[0]?.closed
    const fifth = await begin(payload)
    for (const { socket } of [...sockets, fifth]) socket.close()
  })

  test('a frame over 1 MiB closes its socket', async () => {
    const client = await begin()
    client.send({ type: 'subscribe', id: '1', payload: { query: `{ viewer { id } } # ${'x'.repeat(1024 * 1024)}` } })
    expect(await client.closed).toBe(1009)
  })

  test('answers pings, and closes a client that never reads without slowing the others', {
    timeout: 60_000,
  }, async () => {
    const space = await parley.space(human, [])
    const query = `subscription { spaceMessages(spaceId: "${space.id}") { __typename ... on MessageTextDelta { delta } } }`
    const slow = await begin()
    const quick = await begin()
    quick.send({ type: 'ping' })
    await quick.got('pong')
    for (const client of [slow, quick]) {
      client.send({ type: 'subscribe', id: '1', payload: { query } })
      await client.got('next', '1')
    }
    slow.socket.pause()
    const event = {
      type: 'MessageTextDelta',
      messageId: newId('msg'),
      partIndex: 0,
      offset: 0,
      delta: 'x'.repeat(40_000),
    }
    const { log } = parley.app.platform
    for (let n = 0; n < 500; n++) {
      await log.append(`space:${space.id}`, event)
      if (n % 10 === 0) await until('the fast client keeps up', () => quick.received.length >= n - 50)
    }
    await until(
      'the fast client has all events',
      () => quick.received.filter(({ type }) => type === 'next').length === 501,
      { timeoutMs: 20_000 },
    )
    await until('the slow client is disconnected', () => log.stats().followers === 1, { timeoutMs: 20_000 })
    slow.socket.resume()
    expect([1013, 1006]).toContain(await slow.closed)
    expect(quick.socket.readyState).toBe(WebSocket.OPEN)
    quick.socket.close()
    await quick.closed
  })

  test('an unfinished handshake or a terminated socket does no harm', async () => {
    const { port } = parley.server
    const raw = connect(port, '127.0.0.1', () =>
      raw.end('GET /graphql HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'),
    )
    await new Promise((resolve) => raw.on('close', resolve).resume())
    const torn = await begin()
    torn.send({ type: 'subscribe', id: '1', payload: { query: 'subscription { viewerEvents { __typename } }' } })
    await torn.got('next', '1')
    torn.socket.terminate()
    const after = await begin()
    after.socket.close()
    await after.closed
  })
})
