import path from 'node:path'
import { createClient } from 'graphql-ws'
import { Webhook } from 'standardwebhooks'
import { Agent, fetch, type RequestInit } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import { hasBrowserFor, launchBrowser } from '../support/browser.ts'
import { freePort } from '../support/free-port.ts'
import { canStartNginx, type Nginx, startNginx } from '../support/nginx.ts'
import { createParleyClient } from '../support/parley-client.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { startThrowawayRedis, type ThrowawayRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'
import { createSpace, hasServices, mutate, say } from './deployed.ts'

const CONFIGURATION = path.resolve(import.meta.dirname, '../../deploy/nginx.conf')
const PREFIX = '/parley'
const WATCH = `subscription ($spaceId: ID!, $after: StreamCursor) { spaceMessages(spaceId: $spaceId, after: $after) {
  __typename cursor
  ... on SpaceSnapshot { space { messages(last: 100) { edges { node { text } } } } }
  ... on MessagePosted { message { text } } } }`
/** How many people send messages at the same time while a process restarts, and how many messages each sends. */
const SENDERS = 8
const MESSAGES = 40

interface Event {
  spaceMessages: {
    cursor: string
    message?: { text: string }
    space?: { messages: { edges: { node: { text: string } }[] } }
  }
}

describe.skipIf(!canStartNginx() || !hasServices)('behind nginx, with TLS, a path prefix and two API processes', () => {
  let nginx: Nginx
  let database: TestDatabase
  let redis: ThrowawayRedis
  let ports: [number, number]
  let apis: ParleyProcess[]
  let dispatcher: Agent
  let base: string
  let token: string
  let humanId: string
  let spaceId: string

  const start = (port: number) =>
    startParley({
      settings: {
        PORT: String(port),
        DATABASE_URL: database.url,
        REDIS_URL: redis.url,
        PARLEY_ROLE: 'api',
        PARLEY_PUBLIC_URL: base,
        PARLEY_SECRET_KEY: 'a-secret-key-for-tests-of-32-or-more',
        PARLEY_LOG_LEVEL: 'fatal',
        PARLEY_RATE_MESSAGES: '0',
      },
    })
  /** Sends a request to nginx, as a browser or service does. */
  const ask = (url: string, init: RequestInit = {}) =>
    fetch(url.startsWith('/') ? base + url : url, { ...init, dispatcher })
  const bearer = () => ({ authorization: `Bearer ${token}` })
  const post = (query: string, variables: object = {}, headers: Record<string, string> = {}) =>
    ask('/graphql', {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...bearer(), ...headers },
      body: JSON.stringify({ query, variables }),
    })
  /** Creates a client of one of the processes, which bypasses nginx. */
  const near = (secret = token) => createParleyClient({ origin: apis[1]?.origin ?? '', token: secret })

  beforeAll(async () => {
    ports = [await freePort(), await freePort()]
    nginx = await startNginx(CONFIGURATION, ports)
    base = nginx.origin + PREFIX
    dispatcher = new Agent({ connect: { ca: nginx.certificate } })
    database = await createTestDatabase()
    redis = await startThrowawayRedis()
    apis = await Promise.all(ports.map(start))
    const admin = near(apis[0]?.adminToken)
    const { id } = await mutate(admin, 'createHuman(input: { name: "Ada" })', 'CreateHumanPayload { human { id } }')
    humanId = id
    const grant = `createAccessToken(input: { grant: { humanId: "${humanId}" } })`
    token = (await mutate(admin, grant, 'CreateAccessTokenPayload { secret }')).secret
    spaceId = await createSpace(near(), [])
    await admin.close()
  })
  afterAll(async () => {
    await dispatcher?.close()
    await Promise.all((apis ?? []).map((parley) => parley.kill()))
    await nginx?.dispose()
    await Promise.all([redis?.dispose(), database?.drop()])
  })

  test('plain HTTP and the prefix without a slash are redirected', async () => {
    const plain = await ask(`${nginx.plainOrigin}/parley/spaces`, { redirect: 'manual' })
    expect([plain.status, plain.headers.get('location')]).toEqual([308, 'https://localhost/parley/spaces'])
    const bare = await ask(base, { redirect: 'manual' })
    expect([bare.status, bare.headers.get('location')]).toEqual([308, `${base}/`])
  })

  test('the console and GraphiQL load all their files from under the prefix', async () => {
    const headers = { accept: 'text/html' }
    for (const page of ['/', '/spaces/spc_1', '/invitations/a-code', '/graphql', '/graphql/']) {
      const answer = await ask(page, { headers })
      expect([page, answer.status]).toEqual([page, 200])
      const text = await answer.text()
      const loaded = [...text.matchAll(/ (?:src|href)="(\/[^"]*)"/g)].map(([, url = '']) => url)
      for (const url of loaded) {
        expect(url.startsWith(`${PREFIX}/`), url).toBe(true)
        expect([url, (await ask(nginx.origin + url, { headers })).status]).toEqual([url, 200])
      }
      if (page.startsWith('/graphql')) expect(text).toContain(`"${PREFIX}/graphql"`)
      else expect(loaded.length).toBeGreaterThan(3)
    }
  })

  test('the links of invitations and webhooks work unchanged', async () => {
    const admin = near(apis[0]?.adminToken)
    const { url } = await mutate(
      admin,
      `createInvitation(input: { humanId: "${humanId}" })`,
      'CreateInvitationPayload { url }',
    )
    expect(url).toMatch(`${base}/invitations/`)
    const redeemed = await ask(url, { method: 'POST', headers: { origin: nginx.origin } })
    expect([redeemed.status, await redeemed.json()]).toEqual([200, { token: expect.any(String) }])
    const agent = await mutate(
      admin,
      'createAgent(input: { name: "Iris", instructions: "Help.", model: "demo" })',
      'CreateAgentPayload { agent { id } }',
    )
    const field = `createWebhook(input: { agentId: "${agent.id}", serviceName: "shop" })`
    const made = await mutate(admin, field, 'CreateWebhookPayload { secret webhook { url } }')
    const at = new Date()
    const headers = {
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(made.secret).sign('msg_1', at, '{}'),
    }
    expect((await ask(made.webhook.url, { method: 'POST', headers, body: '{}' })).status).toBe(202)
    await admin.close()
  })

  test('metrics are not public, although nginx runs on the same machine', async () => {
    expect((await ask('/metrics')).status).toBe(401)
  })

  /** Reads a response until it contains a text. */
  async function arrives(answer: Awaited<ReturnType<typeof ask>>, text: string): Promise<void> {
    let all = ''
    const reader = answer.body?.pipeThrough(new TextDecoderStream() as never).getReader()
    await until(`${text} arrives`, async () => {
      const { done, value } = (await reader?.read()) ?? { done: true }
      all += value ?? ''
      if (done) throw new Error(`it ended: ${all}`)
      return all.includes(text)
    })
    await reader?.cancel()
  }

  test.each([
    ['server-sent events', 'text/event-stream'],
    ['multipart', 'multipart/mixed;subscriptionSpec=1.0,application/json'],
  ])('an event arrives at once: %s', async (name, accept) => {
    const answer = await post(WATCH, { spaceId }, { accept })
    expect([answer.status, answer.headers.get('content-encoding')]).toEqual([200, null])
    const client = near()
    await say(client, spaceId, `over ${name}`)
    await arrives(answer, `over ${name}`)
    await client.close()
  })

  /** Signs a page in, and returns the headers for its requests. */
  async function signIn(): Promise<Record<string, string>> {
    const page = { origin: nginx.origin, 'sec-fetch-site': 'same-origin', 'x-parley-csrf': '1' }
    const answer = await ask('/auth/token', {
      method: 'POST',
      headers: { ...page, 'content-type': 'application/json' },
      body: JSON.stringify({ token }),
    })
    expect(answer.status).toBe(200)
    const [cookie = ''] = answer.headers.getSetCookie()
    expect(cookie).toContain(`Path=${PREFIX}`)
    return { ...page, cookie: cookie.split(';')[0] ?? '' }
  }

  test.each([
    ['by a token', async () => bearer()],
    ['by a cookie', signIn],
  ])('an event arrives at once: the single connection mode, which needs one process, %s', async (way, signedIn) => {
    for (let attempt = 0; attempt < 4; attempt++) {
      // The requests of another session can be routed to the other process.
      const headers = await signedIn()
      const opening = await ask('/graphql', { method: 'PUT', headers })
      const stream = await opening.text()
      expect(opening.status).toBe(201)
      const opened = await ask(`/graphql?token=${stream}`, { headers: { ...headers, accept: 'text/event-stream' } })
      expect(opened.status).toBe(200)
      const started = await ask('/graphql', {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json', 'x-graphql-event-stream-token': stream },
        body: JSON.stringify({ query: WATCH, variables: { spaceId }, extensions: { operationId: 'one' } }),
      })
      expect(started.status).toBe(202)
      const client = near()
      await say(client, spaceId, `over one connection ${way} ${attempt}`)
      await arrives(opened, `over one connection ${way} ${attempt}`)
      await client.close()
    }
  })

  /** Opens a browser's socket to nginx, with the origin of the page. */
  function openSocket(onConnected: () => void = () => {}) {
    const certificate = nginx.certificate
    const page = nginx.origin
    class Socket extends WebSocket {
      constructor(url: string, protocols: string) {
        super(url, protocols, { ca: certificate, origin: page })
      }
    }
    return createClient({
      url: `${base.replace('https', 'wss')}/graphql`,
      webSocketImpl: Socket,
      connectionParams: bearer(),
      retryAttempts: 100,
      retryWait: () => new Promise((resolve) => setTimeout(resolve, 50)),
      shouldRetry: () => true,
      on: { connected: onConnected },
    })
  }

  test('a process restarts under load: requests succeed, no event is lost or duplicated, and sockets resume by cursor', async () => {
    const room = await createSpace(near(), [])
    let connections = 0
    const socket = openSocket(() => {
      connections += 1
    })
    const known = new Set<string>()
    let after: string | undefined
    async function watch(): Promise<void> {
      const events = socket.iterate<Event>({ query: WATCH, variables: { spaceId: room, after } })
      for await (const { data } of events) {
        const { cursor, message, space } = data?.spaceMessages ?? {}
        after = cursor
        for (const text of [message?.text, ...(space?.messages.edges ?? []).map(({ node }) => node.text)])
          if (text !== undefined) known.add(text)
      }
    }
    let isOver = false
    // graphql-ws would repeat the subscription with its first variables. So the test subscribes again with the last cursor.
    const watching = (async () => {
      while (!isOver) await watch().catch(() => {})
    })()
    await until('the subscription is active', () => after !== undefined)

    const statuses: number[] = []
    async function send(text: string): Promise<void> {
      const query = `mutation ($text: String!, $key: String!) { sendMessage(input: { spaceId: "${room}", text: $text, idempotencyKey: $key }) {
        __typename ... on Error { message } } }`
      await until(`${text} is sent`, async () => {
        const answer = await post(query, { text, key: text })
        statuses.push(answer.status)
        const body = await answer.text()
        return answer.status === 200 && body.includes('SendMessagePayload')
      })
    }
    let sent = 0
    let isRestarted = false
    const senders = Array.from({ length: SENDERS }, async (_, sender) => {
      for (let n = 0; n < MESSAGES || !isRestarted; n++) {
        await send(`sender ${sender} message ${n}`)
        sent += 1
      }
    })
    const [port] = ports
    async function restart(): Promise<void> {
      await until('the load runs', () => sent > SENDERS)
      await apis[0]?.stop()
      const isDown = sent
      await until('the other process serves alone', () => sent > isDown + SENDERS)
      apis[0] = await start(port)
    }
    const restarting = restart().finally(() => {
      isRestarted = true
    })
    await Promise.all([...senders, restarting])

    await until('the subscription knows every message', () => known.size === sent)
    isOver = true
    await socket.dispose()
    await watching
    expect({ refused: statuses.filter((status) => status !== 200), errors: nginx.errors() }).toMatchObject({
      refused: [],
    })
    const client = near()
    const { data } = await client.ask<{ space: { messages: { edges: { node: { text: string } }[] } } }>(
      `{ space(id: "${room}") { messages(last: 100) { edges { node { text } } } } }`,
    )
    const last = data?.space.messages.edges.map(({ node }) => node.text) ?? []
    expect(new Set(last).size).toBe(100)
    await client.close()
    expect(connections).toBeGreaterThan(0)
  })

  test.skipIf(!hasBrowserFor('the console behind nginx'))(
    'people sign in with an invitation, and post, under the prefix',
    async () => {
      const admin = near(apis[1]?.adminToken)
      const { url } = await mutate(
        admin,
        `createInvitation(input: { humanId: "${humanId}" })`,
        'CreateInvitationPayload { url }',
      )
      const browser = await launchBrowser()
      const page = await browser.newPage({ ignoreHTTPSErrors: true })
      const outside: string[] = []
      const errors: string[] = []
      page.on('request', (request) => request.url().startsWith(`${base}/`) || outside.push(request.url()))
      // Over TLS with an unknown certificate, Chromium does not load service workers.
      const isOfWorker = (text: string) => text.includes('SSL certificate error occurred when fetching the script')
      page.on('console', (line) => line.type() === 'error' && !isOfWorker(line.text()) && errors.push(line.text()))
      page.on('pageerror', ({ message }) => errors.push(message))
      await page.goto(url)
      await page.getByRole('button', { name: 'Sign in' }).click()
      await page.waitForURL(`${base}/spaces/**`)
      await page.getByRole('textbox', { name: 'Message' }).fill('Written under a prefix')
      await page.getByRole('button', { name: 'Send' }).click()
      await page.getByRole('article').filter({ hasText: 'Written under a prefix' }).waitFor()
      await page.reload()
      await page.getByRole('article').filter({ hasText: 'Written under a prefix' }).waitFor()
      expect({ outside, errors }).toEqual({ outside: [], errors: [] })
      await browser.close()
      await admin.close()
    },
  )
})
