import { once } from 'node:events'
import { request } from 'node:http'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import WebSocket from 'ws'
import { createSignIns } from '../../src/access/sign-ins.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

describe('a hostile web page and a client that guesses secrets', () => {
  let parley: TestServer
  let token: string

  beforeAll(async () => {
    parley = await startTestServer({ worker: false, settings: { PARLEY_LOG_LEVEL: 'silent' } })
    token = await parley.tokenOf(await parley.human('Ada'))
  })
  afterAll(() => parley?.close())

  /** Sends a raw request, because fetch cannot set the Host header. */
  function get(
    path: string,
    headers: Record<string, string>,
  ): Promise<{ status: number; headers: Record<string, unknown> }> {
    return new Promise((resolve, reject) => {
      const sent = request(`${parley.origin}${path}`, { headers }, (response) => {
        response.resume()
        resolve({ status: response.statusCode ?? 0, headers: response.headers })
      })
      sent.on('error', reject)
      sent.end()
    })
  }

  test.each<[string, Record<string, string>, number]>([
    ['the machine itself', {}, 200],
    ['the machine itself, by a name of its own', { host: 'localhost:4000' }, 200],
    ['a rebound name', { host: 'evil.example' }, 401],
    ['a proxy that says for whom', { 'x-forwarded-for': '203.0.113.1' }, 401],
    ['a proxy that says it in its own way', { 'x-real-ip': '203.0.113.1' }, 401],
    ['a proxy that only says that it is one', { via: '1.1 proxy' }, 401],
    ['a page in a browser', { origin: 'https://evil.example' }, 401],
  ])('the metrics are for admins, and for %s: %j', async (_, headers, status) => {
    expect((await get('/metrics', headers)).status).toBe(status)
  })

  test('responses are not cached, and their content type is not guessed', async () => {
    const authorization = `Bearer ${token}`
    const query = `/graphql?query=${encodeURIComponent('{ viewer { id } }')}`
    const accept = 'application/json'
    expect((await get(query, { authorization, accept })).headers).toMatchObject({ 'cache-control': 'no-store' })
    expect((await get(query, { accept })).headers).toMatchObject({ 'cache-control': 'no-store' })
    expect((await get('/nothing', {})).headers).toMatchObject({ 'x-content-type-options': 'nosniff' })
  })

  test('GraphiQL runs only its own scripts, cannot be framed, and connects only to its own origin', async () => {
    const { headers } = await get('/graphql', { accept: 'text/html' })
    const policy = String(headers['content-security-policy'])
    expect(policy).toMatch(/^default-src 'none'; script-src( 'sha256-[\w+/=]+')+; /)
    for (const rule of ["connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"])
      expect(policy).toContain(rule)
    expect(policy).not.toMatch(/script-src[^;]*unsafe/)
  })

  test('failed tokens are logged with address and count, never with the token', async () => {
    const noted: object[] = []
    const signIns = createSignIns(
      {
        tokens: { authenticate: async () => null },
        sessions: { authenticate: async () => null, authenticateActing: async () => null },
      },
      {
        warn: (about: object) => noted.push(about),
      } as never,
    )
    for (let n = 0; n < 250; n += 1) expect(await signIns.authenticate(`guess-${n}`, '203.0.113.1')).toBeNull()
    expect(await signIns.redeem('203.0.113.2', async () => null)).toBeNull()
    expect(noted).toEqual([
      { address: '203.0.113.1', count: 1 },
      { address: '203.0.113.1', count: 10 },
      { address: '203.0.113.1', count: 100 },
      { address: '203.0.113.2', count: 1 },
    ])
    expect(signIns.refused()).toBe(251)
  })

  test('failed invitation codes are logged too, and a malformed code causes no lookup', async () => {
    const before = await refusedSignIns()
    const redeem = vi.spyOn(parley.app.platform.db, 'transaction')
    const guess = (code: string) => fetch(`${parley.origin}/invitations/${code}`, { method: 'POST' })
    expect((await guess('short')).status).toBe(404)
    expect(redeem).not.toHaveBeenCalled()
    expect((await guess('x'.repeat(43))).status).toBe(404)
    expect(await refusedSignIns()).toBe(before + 2)
  })

  describe('too many rejected credentials from one address within a minute', () => {
    const viewer = { scope: 'HUMAN', id: 'hum_1', tokenId: null, expiresAt: null } as const
    const authenticate = vi.fn(async (token: string) => (token === 'valid' ? viewer : null))
    const open = () =>
      createSignIns(
        {
          tokens: { authenticate },
          sessions: { authenticate: async () => null, authenticateActing: async () => null },
        },
        {
          warn: () => {},
        } as never,
      )
    const LIMITED = { code: 'RATE_LIMITED', retryAfterMs: expect.any(Number) }

    test('limit only further invalid credentials of the address: a flood behind a proxy signs nobody out', async () => {
      const signIns = open()
      const redeem = vi.fn(async () => null)
      for (let n = 0; n < 300; n += 1) await signIns.redeem('203.0.113.1', redeem)
      await expect(signIns.redeem('203.0.113.1', redeem)).rejects.toMatchObject(LIMITED)
      await expect(signIns.signIn('guess', '203.0.113.1')).rejects.toMatchObject(LIMITED)
      expect(await signIns.signIn('valid', '203.0.113.1')).toBe(viewer)
      expect(await signIns.redeem('203.0.113.1', async () => 'a token')).toBe('a token')
      for (let n = 0; n < 5000; n += 1) expect(await signIns.authenticate('guess', '203.0.113.1')).toBe(null)
      expect(await signIns.authenticate('valid', '203.0.113.1')).toBe(viewer)
      expect(await signIns.resume('guess', '203.0.113.1', { renews: true })).toBe(null)
      expect(await signIns.signIn('guess', '203.0.113.2')).toBe(null)
      expect(signIns.refused()).toBe(5304)
    })

    test('count together for all addresses of an IPv6 network (/64)', async () => {
      const signIns = open()
      for (let n = 0; n < 300; n += 1) await signIns.signIn('guess', `2001:db8:0:1::${n.toString(16)}`)
      await expect(signIns.signIn('guess', '2001:db8:0:1:ffff::')).rejects.toMatchObject(LIMITED)
      expect(await signIns.signIn('guess', '2001:db8:0:2::1')).toBe(null)
      for (let n = 0; n < 300; n += 1) await signIns.signIn('guess', '::ffff:203.0.113.9')
      await expect(signIns.signIn('guess', '203.0.113.9')).rejects.toMatchObject(LIMITED)
      expect(await signIns.signIn('guess', '::ffff:203.0.113.8')).toBe(null)
    })
  })

  test('a client that guesses too often gets 429 for further guesses, and a token opens as many sessions as the rate allows', async () => {
    const settings = { PARLEY_LOG_LEVEL: 'silent', PARLEY_RATE_REQUESTS: '2' }
    const own = await startTestServer({ stack: 'embedded', worker: false, settings })
    try {
      const human = await own.tokenOf(await own.human('Ada'))
      const post = (path: string, body?: object) =>
        fetch(own.origin + path, { method: 'POST', ...(body && { body: JSON.stringify(body) }) })
      for (let n = 0; n < 300; n += 1) expect((await post('/invitations/short')).status).toBe(404)
      const refused = [await post('/invitations/short'), await post('/auth/token', { token: 'guess' })]
      expect(refused.map(({ status }) => status)).toEqual([429, 429])
      expect(Number(refused[0]?.headers.get('retry-after'))).toBeGreaterThan(0)
      for (const status of [200, 200, 429]) expect((await post('/auth/token', { token: human })).status).toBe(status)
    } finally {
      await own.close()
    }
  })

  describe('a site of the same parent domain that sets its own session cookie', () => {
    const page = (cookie: string) => ({ origin: parley.origin, 'x-parley-csrf': '1', cookie })
    const signIn = async (cookie = '') => {
      const body = JSON.stringify({ token })
      const answer = await fetch(`${parley.origin}/auth/token`, { method: 'POST', headers: page(cookie), body })
      expect(answer.status).toBe(200)
      return answer.headers.getSetCookie()[0]?.split(';')[0] ?? ''
    }
    const sessionOf = (cookie: string) => fetch(`${parley.origin}/auth/session`, { headers: page(cookie) })

    test('cannot make a browser use that cookie: requests and sockets are refused until the cookies are cleared', async () => {
      const [own, tossed] = [await signIn(), await signIn()]
      const both = `${tossed}; theme=dark; ${own}`
      const refused = await sessionOf(both)
      expect(refused.status).toBe(403)
      expect(await refused.json()).toEqual({ error: expect.stringContaining('clear the cookies of this site') })
      const headers = { ...page(both), 'content-type': 'application/json' }
      const body = JSON.stringify({ query: '{ viewer { id } }' })
      expect((await fetch(`${parley.origin}/graphql`, { method: 'POST', headers, body })).status).toBe(403)
      const socket = new WebSocket(`${parley.origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws', {
        headers: { cookie: both, origin: parley.origin },
      })
      socket.on('open', () => socket.send('{"type":"connection_init"}'))
      expect((await once(socket, 'close'))[0]).toBe(4403)
      expect(await (await sessionOf(`${own}; ${own}`)).json()).toEqual({ scope: 'HUMAN', mail: false })
    })

    test('does not keep the browser from signing in and out, which ends both sessions', async () => {
      const [own, tossed] = [await signIn(), await signIn()]
      const next = await signIn(`${tossed}; ${own}`)
      for (const cookie of [own, tossed])
        expect(await (await sessionOf(cookie)).json()).toEqual({ scope: null, mail: false })
      const other = await signIn()
      const headers = page(`${other}; ${next}`)
      expect((await fetch(`${parley.origin}/auth/sign-out`, { method: 'POST', headers })).status).toBe(204)
      for (const cookie of [other, next])
        expect(await (await sessionOf(cookie)).json()).toEqual({ scope: null, mail: false })
    })
  })

  async function refusedSignIns(): Promise<number> {
    const figures = await (await fetch(`${parley.origin}/metrics`)).text()
    return Number(/^parley_refused_sign_ins (\d+)/m.exec(figures)?.[1])
  }
})
