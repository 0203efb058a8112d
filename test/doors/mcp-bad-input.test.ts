import { request as httpRequest } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer, ServiceViewer } from '../../src/access/viewer.ts'
import { waitsOf } from '../../src/doors/mcp/door.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'
import { answerOf, rawClient, requestOf, TASKS } from './mcp-client.ts'

const MODERN_HEADERS = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' }

describe('the MCP server, against bad input', () => {
  let parley: TestServer
  let human: HumanViewer
  let client: ReturnType<typeof rawClient>
  beforeAll(async () => {
    parley = await startTestServer({
      settings: {
        PARLEY_MAX_SOCKETS_PER_VIEWER: '2',
        PARLEY_RATE_MESSAGES: '3',
        PARLEY_MAX_RESPONSE_BYTES: '100000',
        PARLEY_ALLOWED_ORIGINS: 'https://app.example',
        AUTH_JWKS_URL: 'https://id.example.com/keys',
        AUTH_ISSUER: 'https://id.example.com',
        AUTH_AUDIENCE: 'parley',
        PARLEY_OIDC_ISSUER: 'https://login.example.com',
        PARLEY_OIDC_CLIENT_ID: 'parley',
        PARLEY_OIDC_CLIENT_SECRET: 'secret',
        PARLEY_OIDC_ALLOW: 'everyone',
        PARLEY_PUBLIC_URL: 'https://parley.example',
      },
    })
  })
  afterAll(() => parley?.close())
  beforeEach(async () => {
    parley.models.reset()
    human = await parley.human('Ada')
    client = rawClient(parley, await parley.tokenOf(human))
  })

  test('without a valid bearer token the response is 401 and names the authorization server; cookies do not count', async () => {
    const metadata = 'https://parley.example/.well-known/oauth-protected-resource/mcp'
    const others: Record<string, string>[] = [
      {},
      { cookie: 'parley_session=x', 'x-parley-csrf': '1' },
      { authorization: 'Basic eDp5' },
    ]
    for (const headers of others) {
      const response = await client.post(requestOf('tools/list'), { token: null, headers })
      expect([response.status, response.headers.get('www-authenticate')]).toEqual([
        401,
        `Bearer realm="parley", resource_metadata="${metadata}"`,
      ])
    }
    const refused = await client.post(requestOf('tools/list'), { token: 'nonsense' })
    expect(refused.headers.get('www-authenticate')).toContain('error="invalid_token"')
    for (const path of ['', '/mcp']) {
      const response = await fetch(`${parley.origin}/.well-known/oauth-protected-resource${path}`)
      expect(await response.json()).toMatchObject({
        resource: 'https://parley.example/mcp',
        authorization_servers: ['https://id.example.com'],
        bearer_methods_supported: ['header'],
      })
    }
  })

  test('disallowed methods, content types, origins and bodies are refused as HTTP requires', async () => {
    const authorization = `Bearer ${await parley.tokenOf(human)}`
    for (const method of ['GET', 'DELETE', 'PUT']) {
      const response = await fetch(`${parley.origin}/mcp`, { method, headers: { authorization } })
      expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST'])
    }
    const statusOf = async (body: unknown, headers: Record<string, string | null>) =>
      (await client.post(body, { headers })).status
    const list = requestOf('tools/list')
    expect(await statusOf(list, { 'content-type': 'text/plain' })).toBe(415)
    expect(await statusOf(list, { 'content-type': 'application/json; charset=latin1' })).toBe(415)
    expect(await statusOf(list, { origin: 'https://evil.example' })).toBe(403)
    expect(await statusOf(list, { ...MODERN_HEADERS, origin: 'https://app.example' })).toBe(200)
    expect(await statusOf('{', {})).toBe(400)
    expect(await statusOf('', {})).toBe(400)
    expect(await statusOf('null', MODERN_HEADERS)).toBe(400)
    expect(await statusOf(`"${'x'.repeat(1024 * 1024)}"`, {})).toBe(413)
    expect(
      await statusOf(
        Array.from({ length: 101 }, () => ({ jsonrpc: '2.0', id: 1, method: 'ping' })),
        {},
      ),
    ).toBe(400)
    const preflight = await fetch(`${parley.origin}/mcp`, {
      method: 'OPTIONS',
      headers: { origin: 'https://app.example' },
    })
    expect([preflight.status, preflight.headers.get('access-control-allow-origin')]).toEqual([
      204,
      'https://app.example',
    ])
  })

  test('unknown versions, missing headers and unknown methods are refused as the protocol requires', async () => {
    const codeOf = async (method: string, options: Parameters<typeof client.ask>[2] = {}, params = {}) => {
      const { status, message } = await client.ask(method, params, options)
      return [status, message.error?.code]
    }
    expect(await codeOf('tools/list', { version: '2099-01-01' })).toEqual([400, -32022])
    expect(await codeOf('tools/list', { headers: { 'mcp-protocol-version': null } })).toEqual([400, -32020])
    expect(await codeOf('tools/list', { headers: { 'mcp-method': null } })).toEqual([400, -32020])
    expect(await codeOf('tools/list', { headers: { 'mcp-method': 'tools/call' } })).toEqual([400, -32020])
    expect(await codeOf('tools/call', { headers: { 'mcp-name': 'decide' } }, { name: 'list_spaces' })).toEqual([
      400, -32020,
    ])
    expect(await codeOf('tasks/get', { capabilities: TASKS, headers: { 'mcp-name': null } }, { taskId: 'x' })).toEqual([
      400, -32020,
    ])
    expect(await codeOf('nothing')).toEqual([404, -32601])
    expect(await codeOf('__proto__')).toEqual([404, -32601])
    expect(await codeOf('tasks/list', { capabilities: TASKS })).toEqual([404, -32601])
    for (const headers of [{ 'mcp-method': null }, { 'mcp-protocol-version': null }] as Record<string, null>[]) {
      const sent = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'subscriptions/listen', ...headers }
      const response = await client.post(requestOf('subscriptions/listen', { notifications: {} }), { headers: sent })
      expect([response.status, (await answerOf(response)).message.error.code]).toEqual([400, -32020])
    }
    const tooOld = requestOf('subscriptions/listen', { notifications: {} }, { version: '2099-01-01' })
    const old = await client.post(tooOld, {
      headers: { 'mcp-protocol-version': '2099-01-01', 'mcp-method': 'subscriptions/listen' },
    })
    expect((await answerOf(old)).message.error.code).toBe(-32022)
  })

  test('bad arguments are errors that a model can read, and calls to unknown tools are invalid', async () => {
    for (const [name, args] of [
      ['send_message', { spaceId: 'spc_x' }],
      ['send_message', { spaceId: 'spc_x', text: 'Hi', waitSeconds: 1e9 }],
      ['read_messages', { spaceId: 7 }],
      ['list_spaces', { limit: -1 }],
      ['decide', { toolCallId: 'x', approve: 'yes' }],
      ['list_pending', { more: true }],
    ] as const)
      expect(await client.call(name, args)).toMatchObject({
        isError: true,
        structuredContent: { error: { code: 'BAD_INPUT' } },
      })
    for (const name of ['nothing', 'constructor', '__proto__'])
      expect(await client.call(name)).toMatchObject({ error: { code: -32602 } })
    expect((await client.listen({ resourceSubscriptions: 'all' })).seen[0].error.code).toBe(-32602)
    expect((await client.listen({ taskIds: ['x'] })).seen[0].error.code).toBe(-32021)
    const many = Array.from({ length: 101 }, (_, n) => `parley://spaces/${n}`)
    expect((await client.listen({ resourceSubscriptions: many })).seen[0].error.code).toBe(-32602)
  })

  test('objects and actions that a viewer cannot access over GraphQL do not exist, or are refused, here too', async () => {
    const eve = await parley.human('Eve')
    const hidden = await parley.space(eve, [])
    await parley.send(eve, hidden.id, 'a secret')
    const codeOf = async (name: string, args: object) => (await client.call(name, args)).structuredContent.error?.code
    expect(await codeOf('read_messages', { spaceId: hidden.id })).toBe('NOT_FOUND')
    expect(await codeOf('send_message', { spaceId: hidden.id, text: 'Hi' })).toBe('NOT_FOUND')
    expect(await codeOf('stop_run', { runId: `run_${'0'.repeat(32)}` })).toBe('NOT_FOUND')
    expect(await codeOf('decide', { toolCallId: `tcl_${'0'.repeat(32)}`, approve: true })).toBe('NOT_FOUND')
    expect(await codeOf('submit_result', { toolCallId: `tcl_${'0'.repeat(32)}`, result: 1 })).toBe('NOT_FOUND')
    expect((await client.call('search_messages', { query: 'secret' })).structuredContent.hits).toEqual([])
    expect((await client.call('list_spaces')).structuredContent.spaces).toEqual([])
    const service: ServiceViewer = {
      scope: 'SERVICE',
      id: '',
      name: 'shop',
      agentIds: [],
      tokenId: null,
      expiresAt: null,
    }
    const shop = rawClient(parley, await parley.tokenOf(service))
    expect((await shop.call('list_spaces')).structuredContent.spaces).toEqual([])
    const own = await parley.space(human, [])
    expect((await shop.call('send_message', { spaceId: own.id, text: 'Hi' })).structuredContent.error.code).toMatch(
      /NOT_FOUND|FORBIDDEN/,
    )
  })

  test('floods meet the same limits as over GraphQL: messages, open streams, and bytes of a response', async () => {
    const space = await parley.space(human, [])
    const uri = `parley://spaces/${space.id}`
    const abort = new AbortController()
    const listen = (signal?: AbortSignal) =>
      client.listen({ resourceSubscriptions: [uri] }, signal === undefined ? {} : { signal })
    await listen(abort.signal)
    await listen(abort.signal)
    const third = await listen()
    expect([third.response.status, third.response.headers.get('retry-after')]).toEqual([429, '5'])
    abort.abort()
    const last = new AbortController()
    await until('a place is free', async () => (await listen(last.signal)).response.status === 200)
    last.abort()
    const codes: (string | undefined)[] = []
    for (let n = 0; n < 5; n += 1) {
      const { structuredContent = {} } = await client.call('send_message', {
        spaceId: space.id,
        text: 'x'.repeat(30_000),
      })
      codes.push(structuredContent.error?.code)
    }
    expect(codes).toEqual([undefined, undefined, undefined, 'RATE_LIMITED', 'RATE_LIMITED'])
    const read = await client.ask('tools/call', { name: 'read_messages', arguments: { spaceId: space.id } })
    expect(JSON.stringify(read.message).length).toBeLessThan(110_000)
  })

  test('each waiting call of a batch counts towards the limit of streams', () => {
    const call = (name: string, more: object = {}) => ({ method: 'tools/call', params: { name, ...more } })
    expect(waitsOf([call('ask_agent'), call('list_spaces'), call('decide', { requestState: 'x' }), null])).toBe(2)
    expect(waitsOf(call('send_message'))).toBe(1)
  })

  test('a client that disconnects ends its wait, and no result is lost', async () => {
    const { human: bob, space } = await parley.room('Bob')
    parley.models.script(() => [{ hang: true }])
    const impatient = rawClient(parley, await parley.tokenOf(bob))
    const abort = new AbortController()
    const send = (text: string) =>
      impatient.call('send_message', { spaceId: space.id, text, waitSeconds: 60 }, { signal: abort.signal })
    const waiting = [send('Go'), send('Go on')].map((call) => expect(call).rejects.toThrow())
    await until('the messages are sent', async () => (await parley.messages(space.id)).length === 2)
    const third = { name: 'send_message', arguments: {} }
    expect((await impatient.ask('tools/call', third)).status).toBe(429)
    expect((await impatient.ask('tools/call', { ...third, requestState: 'run_1' })).status).toBe(429)
    expect((await impatient.ask('tools/call', { name: 'list_spaces' })).status).toBe(200)
    abort.abort()
    await Promise.all(waiting)
    await until('the places are free', async () => (await impatient.ask('tools/call', third)).status === 200)
    expect(await parley.messages(space.id)).toHaveLength(2)
    const { structuredContent: later } = await impatient.call('read_messages', { spaceId: space.id })
    expect(later.messages.map(({ text }: { text: string }) => text).toSorted()).toEqual(['Go', 'Go on'])
  })

  test('a request whose Host is not usable is refused', async () => {
    const status = await new Promise((resolve) => {
      const { port } = parley.server
      const sent = httpRequest(
        { port, host: '127.0.0.1', path: '/mcp', method: 'POST', headers: { host: 'a b' } },
        (response) => resolve(response.statusCode),
      )
      sent.end()
    })
    expect(status).toBe(400)
  })
})
