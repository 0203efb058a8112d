import { createServer } from 'node:http'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import WebSocket from 'ws'
import type { Config } from '../../src/config.ts'
import { startServer } from '../../src/server/server.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

describe('the server', () => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
  })
  afterAll(() => parley?.close())

  const get = (path: string, headers: Record<string, string> = {}, origin = parley.origin) =>
    fetch(origin + path, { headers })
  const begin = (settings: Partial<Config>) =>
    startServer({ app: parley.app, config: { ...parley.app.platform.config, port: 0, ...settings } })

  test('reports that it is alive and that it is ready', async () => {
    expect(await (await get('/health/live')).json()).toEqual({ status: 'ok' })
    const ready = await get('/health/ready')
    expect([ready.status, await ready.json()]).toEqual([200, { status: 'ok', database: true, realtime: true }])
  })

  test('is not ready while the database or the log does not respond', async () => {
    const { db, log } = parley.app.platform
    const { fault } = db
    db.fault = async () => 'The database is read-only.'
    const answer = await get('/health/ready')
    db.fault = fault
    expect([answer.status, await answer.json()]).toEqual([
      503,
      { status: 'unavailable', database: false, realtime: true, reason: 'The database is read-only.' },
    ])
    const logHealthy = log.healthy
    log.healthy = async () => false
    expect((await get('/health/ready')).status).toBe(503)
    log.healthy = logHealthy
  })

  test('serves its metrics to local requests and to admins', async () => {
    const local = await get('/metrics')
    expect(local.status).toBe(200)
    expect(await local.text()).toMatch(/parley_sockets \d/)
    const proxied = { 'x-forwarded-for': '203.0.113.7' }
    expect((await get('/metrics', proxied)).status).toBe(401)
    const human = `Bearer ${await parley.tokenOf(await parley.human('Ada'))}`
    expect((await get('/metrics', { ...proxied, authorization: human })).status).toBe(401)
    const admin = `Bearer ${await parley.tokenOf(parley.admin)}`
    expect((await get('/metrics', { ...proxied, authorization: admin })).status).toBe(200)
  })

  test('serves a start page, GraphiQL for browsers, and 404 elsewhere', async () => {
    const html = { accept: 'text/html' }
    expect(await (await get('/', html)).text()).toContain('/console/assets/')
    const graphiql = await get('/graphql', html)
    expect(graphiql.headers.get('content-type')).toMatch(/text\/html/)
    const page = await graphiql.text()
    expect(page).toContain('YogaGraphiQL')
    expect(page.replace(/<script>[\s\S]*<\/script>/, '')).not.toMatch(/(src|href)="https?:/)
    expect((await get('/nothing')).status).toBe(404)
    expect((await fetch(`${parley.origin}/health/live`, { method: 'POST' })).status).toBe(404)
  })

  test('serves only health and metrics as a worker', async () => {
    const worker = await begin({ role: 'worker' })
    const origin = `http://127.0.0.1:${worker.port}`
    expect((await get('/health/ready', {}, origin)).status).toBe(200)
    expect((await get('/metrics', {}, origin)).status).toBe(200)
    expect((await get('/', {}, origin)).status).toBe(404)
    expect((await get('/console/main.ts', {}, origin)).status).toBe(404)
    expect((await fetch(`${origin}/graphql`, { method: 'POST' })).status).toBe(404)
    const socket = new WebSocket(`ws://127.0.0.1:${worker.port}/graphql`, 'graphql-transport-ws')
    expect(await new Promise((resolve) => socket.on('error', ({ message }) => resolve(message)))).toContain('404')
    await worker.close()
  })

  test('names a port in use in a one-line error', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => other.once('listening', resolve))
    const { port } = other.address() as { port: number }
    await expect(begin({ port })).rejects.toThrow(
      `PORT: 127.0.0.1:${port} is in use; stop the process that uses it, or set PORT to another port`,
    )
    other.close()
  })

  test('on close, closes sockets with 1001, ends both kinds of event streams, and finishes a request', async () => {
    const server = await begin({})
    const origin = `http://127.0.0.1:${server.port}`
    const human = await parley.human('Ada')
    const authorization = `Bearer ${await parley.tokenOf(human)}`
    const socket = new WebSocket(`${origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws', {
      headers: { authorization },
    })
    await new Promise((resolve) => socket.once('open', resolve))
    const query = (text: string, accept: string) =>
      fetch(`${origin}/graphql`, {
        method: 'POST',
        headers: { authorization, accept, 'content-type': 'application/json' },
        body: JSON.stringify({ query: text }),
      })
    const watch = (accept: string) => query('subscription { viewerEvents { __typename } }', accept)
    const streams = await Promise.all(['text/event-stream', 'multipart/mixed;subscriptionSpec=1.0'].map(watch))
    const cutOff = streams.map((stream) =>
      stream.text().then(
        () => 'completed',
        () => 'cut off',
      ),
    )
    const { page } = parley.app.domain.spaces
    const [asked, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    parley.app.domain.spaces.page = async (...input) => {
      asked.resolve()
      await goOn.promise
      return page(...input)
    }
    const slow = query('{ spaces { edges { cursor } } }', 'application/json')
    await asked.promise
    const closed = new Promise((resolve) => socket.once('close', resolve))
    const began = performance.now()
    const closing = server.close()
    expect(await closed).toBe(1001)
    expect(await Promise.all(cutOff)).toEqual(['cut off', 'cut off'])
    await expect(fetch(`${origin}/health/live`)).rejects.toThrow()
    goOn.resolve()
    expect(await (await slow).json()).toEqual({ data: { spaces: { edges: [] } } })
    parley.app.domain.spaces.page = page
    await closing
    expect(performance.now() - began).toBeLessThan(4000)
  })

  test('reports its drain to the readiness check first, and accepts requests until then', async () => {
    const server = await begin({})
    const origin = `http://127.0.0.1:${server.port}`
    const { clock } = parley.app.platform
    await get('/health/ready', {}, origin)
    // The server has answered one health check within 20 s, so there is time for another one.
    vi.spyOn(clock, 'now').mockImplementation(() => Date.now() + 20_000)
    expect((await get('/health/ready', {}, origin)).status).toBe(200)
    const closing = server.close()
    expect((await get('/health/live', {}, origin)).status).toBe(200)
    const answer = await get('/health/ready', {}, origin)
    expect([answer.status, await answer.json()]).toEqual([503, { status: 'draining', database: true, realtime: true }])
    await closing
    await expect(get('/health/live', {}, origin)).rejects.toThrow()
  })

  test('a signed webhook wakes its agent once; other requests are refused with the reason', async () => {
    const agent = await parley.agent('Hooked')
    const { webhook, secret } = await parley.app.domain.webhooks.create(parley.admin, {
      agentId: agent.id,
      serviceName: 'ci',
    })
    const body = JSON.stringify({ build: 'failed' })
    const post = (headers: Record<string, string>, id = webhook.id, payload: string = body) =>
      fetch(`${parley.origin}/hooks/agents/${id}`, { method: 'POST', headers, body: payload })
    const signed = (id: string) => {
      const now = new Date()
      const signature = new Webhook(secret).sign(id, now, body)
      return {
        'webhook-id': id,
        'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
        'webhook-signature': signature,
      }
    }
    const first = await post(signed('delivery-1'))
    expect(first.status).toBe(202)
    const { runId } = (await first.json()) as { runId: string }
    expect(runId).toMatch(/^run_/)
    expect(await (await post(signed('delivery-1'))).json()).toEqual({ runId })
    expect((await post({})).status).toBe(401)
    expect((await post(signed('delivery-2'), 'whk_nothing')).status).toBe(404)
    expect((await post(signed('delivery-3'), webhook.id, 'x'.repeat(1024 * 1024 + 1))).status).toBe(413)
    expect((await get(`/hooks/agents/${webhook.id}`)).status).toBe(404)
  })
})
