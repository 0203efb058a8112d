import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createRates } from '../../src/access/rates.ts'
import { closeUnreadBody } from '../../src/server/http/unread-body.ts'
import { createWebhookHandler } from '../../src/server/http/webhooks.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const NO_LIMITS = { messages: 0, triggers: 0, requests: 0 }
const JWT_SECRET = 'a-secret-of-an-issuer-for-tests-of-32'

describe('a client without a token', () => {
  let parley: TestServer
  let token: string
  const sockets: Socket[] = []

  beforeAll(async () => {
    parley = await startTestServer({
      worker: false,
      settings: { PARLEY_LOG_LEVEL: 'silent', AUTH_JWT_SECRET: JWT_SECRET },
    })
    token = await parley.tokenOf(await parley.human('Ada'))
  })
  afterAll(async () => {
    for (const socket of sockets) socket.destroy()
    await parley?.close()
  })

  /** Returns the whole response as text. */
  function say(port: number, text: string): { heard: string; isClosed: boolean } {
    const said = { heard: '', isClosed: false }
    const socket = connect(port, '127.0.0.1', () => socket.write(text))
    sockets.push(socket)
    socket.on('data', (data) => {
      said.heard += data
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      said.isClosed = true
    })
    return said
  }
  const head = (path: string, size: number) =>
    `POST ${path} HTTP/1.1\r\nHost: parley\r\nContent-Length: ${size}\r\n\r\n`

  test('gets 413 for a body that declares a larger size than a webhook accepts, before any of it arrives', async () => {
    const { port } = parley.server
    const { webhook } = await parley.app.domain.webhooks.create(parley.admin, {
      agentId: (await parley.agent('Hooked')).id,
      serviceName: 'ci',
    })
    const unknown = say(port, head('/hooks/agents/whk_x', 64 * 1024 + 1))
    await until('the body is refused', async () => unknown.heard.startsWith('HTTP/1.1 413'))
    const unsigned = say(port, head(`/hooks/agents/${webhook.id}`, 1000))
    await until('the body is refused', async () => unsigned.heard.startsWith('HTTP/1.1 401'))
  })

  describe('whose body never ends', () => {
    const servers: Server[] = []
    afterAll(() => {
      for (const server of servers) server.closeAllConnections()
    })

    async function serve(options: { timeoutMs?: number; mostUnfinishedBytes?: number }): Promise<number> {
      const read = async (_id: string, _headers: object, body: (most: number) => Promise<Buffer>) => {
        await body(64 * 1024)
        return { runId: null, isNew: true }
      }
      const handle = createWebhookHandler({ webhooks: { receive: read }, rates: createRates(NO_LIMITS, null) }, options)
      const server = createServer((request, response) => {
        closeUnreadBody(request, response)
        void Promise.resolve(handle(request, response)).catch(() => {})
      })
      servers.push(server)
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      return (server.address() as AddressInfo).port
    }

    test('is disconnected after the time limit', async () => {
      const slow = say(await serve({ timeoutMs: 50 }), `${head('/hooks/agents/whk_x', 1000)}half`)
      await until('the sender is disconnected', async () => slow.isClosed)
    })

    test('uses a bounded amount of memory in total, and does not delay others afterwards', async () => {
      const port = await serve({ mostUnfinishedBytes: 100_000 })
      const half = `${head('/hooks/agents/whk_x', 60_000)}${'x'.repeat(50_000)}`
      const first = [say(port, half), say(port, half)]
      const third = say(port, half)
      await until('one body is too many', async () =>
        [...first, third].some(({ heard }) => heard.startsWith('HTTP/1.1 503')),
      )
      for (const socket of sockets) socket.destroy()
      await until('the next body is accepted', async () => {
        const next = say(port, `${head('/hooks/agents/whk_x', 4)}{"a"`)
        await until('the request gets its response', async () => next.heard !== '')
        return next.heard.startsWith('HTTP/1.1 202')
      })
    })
  })

  test('a literal of thousands of nested lists, or a name that is not text, causes no 500', async () => {
    const ask = (authorization: string, query: string) =>
      fetch(`${parley.origin}/graphql`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${authorization}` },
        body: JSON.stringify({ query }),
      })
    for (const depth of [500, 1500, 2400]) {
      const literal = '['.repeat(depth) + ']'.repeat(depth)
      const { status } = await ask(token, `{ node(id: ${literal}) { id } }`)
      expect(status).toBe(400)
    }
    const sign = (sub: string) =>
      new SignJWT({ sub })
        .setProtectedHeader({ alg: 'HS256' })
        .setExpirationTime('1h')
        .sign(new TextEncoder().encode(JWT_SECRET))
    for (const sub of ['ada\0', 'ada\ud800']) expect((await ask(await sign(sub), '{ __typename }')).status).toBe(401)
  })
})
