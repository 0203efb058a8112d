import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const MIB = 1024 * 1024
const BODIES = 600
/**
 * Measured from the end of the last body, because on a busy machine this process takes seconds to send so much data to itself.
 */
const CLOSED_WITHIN_MS = 15_000

describe('request bodies that never end', () => {
  let parley: TestServer
  let token: string
  const sockets: Socket[] = []
  let lastSentAt = 0

  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
    token = await parley.tokenOf(await parley.human('Ada'))
  })
  afterAll(async () => {
    for (const socket of sockets) socket.destroy()
    await parley?.close()
  })

  interface Sender {
    received: string
    isClosed: boolean
    socket: Socket
  }

  /** Sends a part of a request, and then keeps the connection open without ending the request. */
  function send(...parts: (string | Buffer)[]): Sender {
    const socket = connect({ port: parley.server.port, host: '127.0.0.1', allowHalfOpen: true })
    const sender: Sender = { received: '', isClosed: false, socket }
    sockets.push(socket)
    socket.on('data', (data) => {
      sender.received += data
    })
    socket.on('error', () => {})
    // Whether the server has closed its side of the connection, or all of it.
    socket.on('end', () => {
      sender.isClosed = true
    })
    socket.on('close', () => {
      sender.isClosed = true
    })
    for (const part of parts) {
      socket.write(part, (error) => {
        if (error == null) lastSentAt = Date.now()
      })
    }
    return sender
  }

  const head = (path: string, framing: string, authorization = `Bearer ${token}`, type = 'application/json') =>
    `POST ${path} HTTP/1.1\r\nHost: parley\r\nContent-Type: ${type}\r\nAuthorization: ${authorization}\r\n${framing}\r\n\r\n`
  const sized = (bytes: number) => `Content-Length: ${bytes}`
  const CHUNKED = 'Transfer-Encoding: chunked'
  const most = Buffer.alloc(MIB - 1, 'x')
  const ask = (query: string) =>
    fetch(`${parley.origin}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
      body: JSON.stringify({ query }),
    })

  test(`${BODIES} of 1 MiB are all closed within 15 s, in bounded memory, and the server keeps serving`, async () => {
    // The resident memory includes that of buffers.
    const heldBefore = process.memoryUsage().external
    let mostHeld = 0
    const measuring = setInterval(() => {
      mostHeld = Math.max(mostHeld, process.memoryUsage().external - heldBefore)
    }, 50)
    const paths = [
      () => send(head('/graphql', sized(MIB)), most),
      () => send(head('/graphql', sized(MIB), 'Bearer no-such-token'), most),
      () => send(head('/graphql', sized(MIB), undefined, 'text/plain'), most),
      () => send(head('/graphql', CHUNKED), `${MIB.toString(16)}\r\n`, most),
      () => send(head('/hooks/agents/whk_x', sized(MIB)), most),
      () => send(head('/invitations/nobody', sized(MIB)), most),
      () => send(head('/nothing/here', sized(MIB)), most),
      () => send(head('/health/live', sized(MIB)), most),
    ]
    const senders = Array.from({ length: BODIES }, (_, index) => paths[index % paths.length]!())
    expect((await ask('{ viewer { id } }')).status).toBe(200)
    await until('all connections are closed', async () => senders.every(({ isClosed }) => isClosed), {
      timeoutMs: 60_000,
    })
    const tookMs = Date.now() - lastSentAt
    clearInterval(measuring)
    expect(tookMs).toBeLessThan(CLOSED_WITHIN_MS)
    expect(mostHeld).toBeLessThan(200 * MIB)
    const statuses = new Set(senders.map(({ received }) => /^HTTP\/1\.1 (\d+)/.exec(received)?.[1]))
    expect([...statuses].sort()).toEqual(['401', '404', '408', '413', '415', '429'])
    expect((await ask('{ viewer { id } }')).status).toBe(200)
  })

  test.each([
    ['too large by its length', 413, () => send(head('/graphql', sized(3 * MIB)), 'x')],
    ['too large in chunks', 413, () => send(head('/graphql', CHUNKED), `${(3 * MIB).toString(16)}\r\n`, most, most)],
    ['without a valid token', 401, () => send(head('/graphql', sized(MIB), 'Bearer no'), 'x')],
    ['of another type', 415, () => send(head('/graphql', sized(MIB), undefined, 'text/plain'), 'x')],
    ['for an unknown path', 404, () => send(head('/nothing', sized(MIB)), 'x')],
    ['for an invitation', 404, () => send(head('/invitations/no', sized(MIB)), 'x')],
  ])('a body %s gets %i, and its connection is closed', async (_, status, sendIt) => {
    const sender = sendIt()
    await until('the connection is closed', async () => sender.isClosed)
    expect(sender.received).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    expect(sender.received.toLowerCase()).toContain('\r\nconnection: close\r\n')
  })

  test.concurrent('a client that keeps sending a refused body is disconnected after it could read the response', async () => {
    const sender = send(head('/graphql', sized(1024 * MIB)), 'x')
    const sending = setInterval(() => sender.socket.write(Buffer.alloc(1024, 'x')), 20)
    let isGone = false
    sender.socket.on('close', () => {
      isGone = true
    })
    await until('the connection is gone', async () => isGone)
    clearInterval(sending)
    expect(sender.received).toMatch(/^HTTP\/1\.1 413 /)
  })

  test.concurrent('an honest client on a slow line, whose small body takes 10 s, is served, and its connection is kept', async () => {
    const body = JSON.stringify({ query: '{ viewer { id } }' })
    const sender = send(head('/graphql', sized(body.length)))
    for (const letter of body) {
      sender.socket.write(letter)
      await new Promise((resolve) => setTimeout(resolve, 10_000 / body.length))
    }
    await until('the request gets its response', async () => sender.received.includes('"viewer"'))
    expect(sender.received).toMatch(/^HTTP\/1\.1 200 /)
    expect(sender.isClosed).toBe(false)
  })

  test.concurrent('a client whose upgrade is refused and that does not close is disconnected', async () => {
    const upgrade = 'Host: parley\r\nConnection: Upgrade\r\nUpgrade: websocket'
    const sender = send(`GET /nothing HTTP/1.1\r\n${upgrade}\r\n\r\n`)
    let isGone = false
    sender.socket.on('close', () => {
      isGone = true
    })
    await until('the request is refused', async () => sender.received.startsWith('HTTP/1.1 404'))
    const writing = setInterval(() => sender.socket.write('x'), 20)
    await until('the connection is gone', async () => isGone)
    clearInterval(writing)
  })

  test.concurrent('headers that never end are closed within 15 s', async () => {
    const started = Date.now()
    const senders = [send('POST /graphql HTTP/1.1\r\nHost: parley\r\n'), send('POST'), send('')]
    await until('all connections are closed', async () => senders.every(({ isClosed }) => isClosed), {
      timeoutMs: 60_000,
    })
    expect(Date.now() - started).toBeLessThan(CLOSED_WITHIN_MS)
  })
})
