import { request as openRequest } from 'node:http'
import { createClient } from 'graphql-ws'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import WebSocket from 'ws'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { startMcpServer } from '../support/mcp-server.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

interface RawAnswer {
  status: number
  body: string
}

/** Sends a request with any Host header and target, which `fetch` does not allow. */
function ask(
  origin: string,
  {
    method = 'GET',
    target,
    headers = {},
    body = '',
  }: { method?: string; target: string; headers?: Record<string, string>; body?: string },
): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(origin)
    const sent = openRequest({ hostname, port, method, path: target, headers, agent: false }, (answer) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (chunk) => {
        text += chunk
      })
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body: text }))
    })
    sent.on('error', reject).end(body)
  })
}

const INVITE = `mutation ($humanId: ID!) { createInvitation(input: { humanId: $humanId }) { ... on CreateInvitationPayload { url } } }`
const WATCH = 'subscription ($spaceId: ID!) { spaceMessages(spaceId: $spaceId) { __typename } }'

describe('without PARLEY_PUBLIC_URL', () => {
  let parley: TestServer
  let human: HumanViewer
  let authorization: string
  let admin: string
  beforeAll(async () => {
    const settings = { PARLEY_ALLOWED_ORIGINS: 'https://app.example' }
    parley = await startTestServer({ stack: 'embedded', worker: false, settings })
    human = await parley.human('Ada')
    authorization = `Bearer ${await parley.tokenOf(human)}`
    admin = `Bearer ${await parley.tokenOf(parley.admin)}`
  })
  afterAll(() => parley?.close())
  afterEach(() => {
    vi.useRealTimers()
  })

  const invite = (headers: Record<string, string>, target = '/graphql') =>
    ask(parley.origin, {
      method: 'POST',
      target,
      headers: { authorization: admin, 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ query: INVITE, variables: { humanId: human.id } }),
    })
  const urlIn = ({ body }: RawAnswer) => new URL(JSON.parse(body).data.createInvitation.url)

  test.each([
    ['the host', { host: 'chat.example' }, 'http://chat.example'],
    ['the host and its port', { host: 'chat.example:4000' }, 'http://chat.example:4000'],
    ['the default port of https', { host: 'chat.example:443' }, 'https://chat.example'],
    ['the default port of http', { host: 'chat.example:80' }, 'http://chat.example'],
    ['an IPv6 address', { host: '[::1]:4000' }, 'http://[::1]:4000'],
    [
      'the scheme that a proxy forwards',
      { host: 'chat.example', 'x-forwarded-proto': 'https' },
      'https://chat.example',
    ],
    ['a scheme that is none', { host: 'chat.example', 'x-forwarded-proto': 'javascript' }, 'http://chat.example'],
    [
      'the host and scheme that proxies forward',
      { host: 'api:4000', 'x-forwarded-host': 'chat.example:443, inner', 'x-forwarded-proto': 'https, http' },
      'https://chat.example',
    ],
    ['the origin of the page', { host: 'chat.example:443', origin: 'https://chat.example' }, 'https://chat.example'],
    ['the origin of an allowed page', { host: 'chat.example', origin: 'https://app.example' }, 'http://chat.example'],
  ])('an invitation links to the host of the request: %s', async (_, headers, expected) => {
    const url = urlIn(await invite(headers))
    expect(url.href).toMatch(/\/invitations\/[\w-]{43}$/)
    expect(url.origin).toBe(expected)
  })

  test('a webhook that is read over a socket links to the host of the socket', async () => {
    const agent = await parley.agent('Iris')
    class Socket extends WebSocket {
      constructor(url: string, protocols: string) {
        super(url, protocols, { headers: { host: 'chat.example', 'x-forwarded-proto': 'https' } })
      }
    }
    const url = `${parley.origin.replace('http', 'ws')}/graphql/`
    const client = createClient({ url, webSocketImpl: Socket, connectionParams: { authorization: admin } })
    const query = `mutation { createWebhook(input: { agentId: "${agent.id}", serviceName: "shop" }) {
      ... on CreateWebhookPayload { webhook { id url } } } }`
    for await (const { data } of client.iterate<{ createWebhook: { webhook: { id: string; url: string } } }>({
      query,
    })) {
      const { id, url: link } = data?.createWebhook.webhook ?? {}
      expect(link).toBe(`https://chat.example/hooks/agents/${id}`)
    }
    await client.dispose()
  })

  test('a slash at the end of a path makes no difference, nor does an absolute URL as the target, whose host counts', async () => {
    expect((await invite({}, '/graphql/')).status).toBe(200)
    expect((await ask(parley.origin, { target: '/health/ready/' })).status).toBe(200)
    const absolute = await invite({ host: 'other.example' }, 'http://chat.example:8080/graphql')
    expect([absolute.status, urlIn(absolute).origin]).toEqual([200, 'http://chat.example:8080'])
    expect((await ask(parley.origin, { target: 'http://chat.example' })).body).toContain('<div id="root">')
    expect((await ask(parley.origin, { target: 'http://[chat/graphql' })).status).toBe(404)
  })

  test('a path under a prefix that the server does not know returns the setting to change, and is logged once', async () => {
    const warn = vi.spyOn(parley.app.platform.logger, 'warn')
    for (const target of ['/parley/', '/parley', '/parley/graphql', '/a/b/spaces/spc_1', '/parley/console/x.js'])
      expect(await ask(parley.origin, { target })).toEqual({
        status: 404,
        body: expect.stringMatching(
          /^Not found\. If a proxy adds the prefix \/(parley|a\/b), set PARLEY_PUBLIC_URL to /,
        ),
      })
    for (const target of ['/a/b', '/health', '/<b>/graphql', '/console/x.js'])
      expect((await ask(parley.origin, { target })).body).not.toContain('<b>')
    expect((await ask(parley.origin, { target: '/a/b' })).body).toBe('Not found.\n')
    expect(warn.mock.calls.filter(([, text]) => text?.includes('If a proxy adds'))).toHaveLength(1)
    warn.mockRestore()
  })

  test('an allowed origin may send any header that its page requests, and no other origin may', async () => {
    const asked = 'authorization,content-type,apollographql-client-name,traceparent,sentry-trace,baggage'
    const preflight = async (origin: string) => {
      const headers = { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': asked }
      const answer = await fetch(`${parley.origin}/graphql`, { method: 'OPTIONS', headers })
      return [answer.headers.get('access-control-allow-origin'), answer.headers.get('access-control-allow-headers')]
    }
    expect(await preflight('https://app.example')).toEqual(['https://app.example', asked])
    expect(await preflight('https://evil.example')).toEqual([null, null])
  })

  describe('HTTP streams are neither buffered nor compressed on the way, and send data every 12 s', () => {
    let spaceId: string
    beforeAll(async () => {
      spaceId = (await parley.space(human, [])).id
    })

    const post = (headers: Record<string, string>, extra: object = {}) =>
      fetch(`${parley.origin}/graphql`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ query: WATCH, variables: { spaceId }, ...extra }),
      })
    async function openSingle(): Promise<Response> {
      const headers = { authorization }
      const token = await (await fetch(`${parley.origin}/graphql`, { method: 'PUT', headers })).text()
      const opened = await fetch(`${parley.origin}/graphql?token=${token}`, { headers })
      await post({ 'x-graphql-event-stream-token': token }, { extensions: { operationId: 'one' } })
      return opened
    }

    test.each([
      ['server-sent events', () => post({ accept: 'text/event-stream' }), ':\n\n'],
      ['one connection for all', openSingle, ':\n\n'],
      ['multipart', () => post({ accept: 'multipart/mixed;subscriptionSpec=1.0' }), 'application/json\r\n\r\n{}\r\n'],
    ])('%s', async (_, open, beat) => {
      vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
      const answer = await open()
      expect(answer.status).toBe(200)
      expect(Object.fromEntries(answer.headers)).toMatchObject({
        'x-accel-buffering': 'no',
        'cache-control': 'no-store, no-transform',
      })
      expect(answer.headers.get('content-encoding')).toBeNull()
      let text = ''
      const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
      const reading = (async () => {
        for (let next = await reader.read(); !next.done; next = await reader.read()) text += next.value
      })().catch(() => {})
      await until('the snapshot arrives', () => text.includes('SpaceSnapshot'))
      const beats = () => text.split(beat).length
      const before = beats()
      vi.advanceTimersByTime(12_000)
      await until('a beat arrives', () => beats() > before)
      await reader.cancel()
      await reading
    })
  })
})

describe('with PARLEY_PUBLIC_URL and a path prefix', () => {
  const PUBLIC_URL = 'https://intranet.example/tools/parley'
  let parley: TestServer
  let human: HumanViewer
  let admin: string
  beforeAll(async () => {
    const settings = { PARLEY_PUBLIC_URL: `${PUBLIC_URL}/` }
    parley = await startTestServer({ stack: 'embedded', worker: false, settings })
    human = await parley.human('Ada')
    admin = `Bearer ${await parley.tokenOf(parley.admin)}`
  })
  afterAll(() => parley?.close())

  test.each(['/tools/parley/graphql', '/graphql', '/tools/parley/graphql/'])(
    'links use the prefix, whether or not the proxy removes it: %s',
    async (target) => {
      const { body } = await ask(parley.origin, {
        method: 'POST',
        target,
        headers: {
          authorization: admin,
          'content-type': 'application/json',
          host: 'api:4000',
          'x-forwarded-host': 'evil.example',
        },
        body: JSON.stringify({ query: INVITE, variables: { humanId: human.id } }),
      })
      expect(JSON.parse(body).data.createInvitation.url).toMatch(`${PUBLIC_URL}/invitations/`)
    },
  )

  test('a proxy that was reached at another address is logged once', async () => {
    const other = await startTestServer({
      stack: 'embedded',
      worker: false,
      isFresh: true,
      settings: { PARLEY_PUBLIC_URL: 'https://chat.example:8443' },
    })
    const warn = vi.spyOn(other.app.platform.logger, 'warn')
    const warnings = () => warn.mock.calls.map(([about]) => (about as { forwarded?: string }).forwarded).filter(Boolean)
    const target = '/health/live'
    const right: Record<string, string>[] = [
      { host: 'inner:4000' },
      { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'chat.example:8443' },
      { 'x-forwarded-proto': 'wss', host: 'inner:4000' },
    ]
    for (const headers of right) await ask(other.origin, { target, headers })
    expect(warnings()).toEqual([])
    for (let n = 0; n < 2; n++)
      await ask(other.origin, { target, headers: { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'chat.example' } })
    expect(warnings()).toEqual(['https://chat.example'])
    await other.close()
  })

  const post = (path: string, body: object, headers: Record<string, string>) =>
    fetch(`${parley.origin}/tools/parley${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })

  test('join links use the prefix', async () => {
    const space = await parley.space(human, [])
    const query = `mutation { createJoinLink(input: { spaceId: "${space.id}" }) {
      ... on CreateJoinLinkPayload { joinLink { url } } } }`
    const answer = await post('/graphql', { query }, { authorization: `Bearer ${await parley.tokenOf(human)}` })
    const { data } = (await answer.json()) as { data: { createJoinLink: { joinLink: { url: string } } } }
    expect(data.createJoinLink.joinLink.url).toMatch(/^https:\/\/intranet\.example\/tools\/parley\/join\/[\w-]{43}$/)
  })

  test('the session cookie is restricted to the prefix, and deleted there', async () => {
    const page = { origin: 'https://intranet.example', 'x-parley-csrf': '1' }
    const signedIn = await post('/auth/token', { token: await parley.tokenOf(human) }, page)
    const [pair = '', ...attributes] = signedIn.headers.getSetCookie()[0]?.split('; ') ?? []
    expect(attributes).toEqual(['Path=/tools/parley', 'Max-Age=2592000', 'HttpOnly', 'SameSite=Lax', 'Secure'])
    const asked = await post('/graphql', { query: '{ viewer { human { name } } }' }, { ...page, cookie: pair })
    expect(await asked.json()).toEqual({ data: { viewer: { human: { name: 'Ada' } } } })
    const left = await post('/auth/sign-out', {}, { ...page, cookie: pair })
    expect(left.headers.getSetCookie()[0]).toMatch('; Path=/tools/parley; Max-Age=0; ')
  })

  test('an authorization at an MCP server returns to the prefix', async () => {
    const mcp = await startMcpServer([{ name: 'add', description: 'Adds.' }])
    const { origin } = new URL(mcp.url)
    const redirectUrl = `${PUBLIC_URL}/auth/mcp/callback`
    const answers: Record<string, object> = {
      '/.well-known/oauth-protected-resource': { resource: mcp.url, authorization_servers: [origin] },
      '/.well-known/oauth-authorization-server': {
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        registration_endpoint: `${origin}/register`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none'],
      },
      '/register': { client_id: 'parley-1', redirect_uris: [redirectUrl] },
      '/token': { access_token: 'token-1', token_type: 'Bearer' },
    }
    mcp.authorization = 'Bearer token-1'
    mcp.aside = (request, response) => {
      const [, answer] = Object.entries(answers).find(([path]) => request.url?.startsWith(path)) ?? []
      if (answer === undefined) return false
      request.resume()
      const status = request.url === '/register' ? 201 : 200
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
      return true
    }
    const server = { name: 'math', url: mcp.url, oauth: 'SERVER' }
    const { id: agentId } = await parley.agent('Mina', { mcpServers: [server] as never })
    const query = `mutation ($input: ConnectMcpServerInput!) { connectMcpServer(input: $input) {
      ... on ConnectMcpServerPayload { authorizationUrl error } } }`
    const variables = { input: { agentId, server } }
    const begun = await post('/graphql', { query, variables }, { authorization: admin })
    const { data } = (await begun.json()) as { data: { connectMcpServer: { authorizationUrl: string } } }
    const { searchParams } = new URL(data.connectMcpServer.authorizationUrl)
    expect(searchParams.get('redirect_uri')).toBe(redirectUrl)
    const target = `/tools/parley/auth/mcp/callback?code=good&state=${searchParams.get('state')}`
    const back = await ask(parley.origin, { target })
    expect(back).toEqual({ status: 200, body: expect.stringContaining('"math" is authorized') })
    await mcp.close()
  })

  test('the console and GraphiQL use the prefix for everything that they load', async () => {
    const headers = { accept: 'text/html' }
    for (const target of ['/tools/parley', '/tools/parley/', '/tools/parley/spaces/spc_1', '/spaces/spc_1']) {
      const { body } = await ask(parley.origin, { target })
      expect(body).toContain('data-base="/tools/parley"')
      const loaded = [...body.matchAll(/ (?:src|href)="([^"]*)"/g)].map(([, url = '']) => url)
      expect(loaded.length).toBeGreaterThan(3)
      for (const url of loaded)
        expect([url, (await ask(parley.origin, { target: url, headers })).status]).toEqual([url, 200])
    }
    const { body } = await ask(parley.origin, { target: '/tools/parley/graphql', headers })
    expect(body).toContain('"/tools/parley/graphql"')
  })

  test('the path of another application with the same first letters is not handled', async () => {
    expect((await ask(parley.origin, { target: '/tools/parleyx/graphql' })).status).toBe(404)
  })

  test('its own pages may open sockets and redeem invitations with any Host that the proxy sends', async () => {
    const open = (origin: string) =>
      new Promise((resolve) => {
        const url = `${parley.origin.replace('http', 'ws')}/tools/parley/graphql`
        const socket = new WebSocket(url, 'graphql-transport-ws', { origin })
        socket.on('open', () => resolve('open')).on('error', (error) => resolve(error.message))
        socket.on('open', () => socket.terminate())
      })
    expect(await open('https://intranet.example')).toBe('open')
    expect(await open('https://evil.example')).toMatch('403')
    const redeem = (origin: string) =>
      ask(parley.origin, { method: 'POST', target: '/tools/parley/invitations/none', headers: { origin } })
    // Both return 404, because the invitation does not exist. The request from the refused origin does not count as an attempt.
    expect((await redeem('https://intranet.example')).status).toBe(404)
  })

  test('health checks need no prefix', async () => {
    expect((await ask(parley.origin, { target: '/health/ready' })).status).toBe(200)
  })
})
