import { generateKeyPair, SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { freePort } from '../support/free-port.ts'
import {
  CLIENT,
  type CookieJar,
  createCookieJar,
  signInAtProvider,
  startIdentityProvider,
  type TestIdentityProvider,
} from '../support/oidc-provider.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const settingsOf = ({ issuer }: TestIdentityProvider) => ({
  PARLEY_OIDC_ISSUER: issuer,
  PARLEY_OIDC_CLIENT_ID: CLIENT.id,
  PARLEY_OIDC_CLIENT_SECRET: CLIENT.secret,
  PARLEY_OIDC_ALLOW: 'domain:example.com',
})

function account(provider: TestIdentityProvider, name: string): string {
  const login = name.toLowerCase()
  provider.accounts[login] = { name, email: `${login}@example.com`, email_verified: true }
  return login
}

/** Returns the name of the human who is signed in to a server with a browser; null if nobody is. */
async function nameAt(base: string, jar: CookieJar): Promise<string | null> {
  const headers = { origin: new URL(base).origin, 'x-parley-csrf': '1', 'content-type': 'application/json' }
  const body = JSON.stringify({ query: '{ viewer { human { name } } }' })
  const answer = await jar.request(`${base}/graphql`, { method: 'POST', headers, body })
  const { data } = (await answer.json()) as { data?: { viewer: { human: { name: string } } } }
  return data?.viewer.human.name ?? null
}

const logoutAt = (base: string, token: string, provider = 'default') =>
  fetch(`${base}/auth/oidc/${provider}/logout`, { method: 'POST', body: new URLSearchParams({ logout_token: token }) })

describe.each(RULE_STACKS)('logout by an identity provider, on the %s stack', (stack) => {
  let provider: TestIdentityProvider
  let parley: TestServer
  beforeAll(async () => {
    provider = await startIdentityProvider()
    parley = await startTestServer({ stack, worker: false, isFresh: true, settings: settingsOf(provider) })
    provider.allow(parley.origin, ['default'])
  })
  afterAll(async () => {
    await parley?.close()
    await provider?.close()
  })

  async function signIn(login: string, jar = createCookieJar()) {
    const callback = await signInAtProvider(jar, `${parley.origin}/auth/oidc/default`, { login })
    return { jar, answer: await jar.request(callback) }
  }

  test.each(['sid', 'sub'] as const)(
    'a logout that arrives before the session is open leaves no session behind (%s)',
    async (by) => {
      const login = account(provider, `Ann ${by}`.replace(' ', ''))
      const first = await signIn(login)
      expect(await nameAt(parley.origin, first.jar)).not.toBeNull()
      const session = await parley.app.platform.db.prisma.session.findFirstOrThrow({ orderBy: { id: 'desc' } })
      const whose = by === 'sub' ? { sub: login } : { sid: session.oidcSid }

      // The same browser signs in at the provider again, which reuses its session.
      let status = 0
      provider.beforeClaims = async () => {
        status = (await logoutAt(parley.origin, await provider.logoutToken(whose))).status
      }
      const second = await signIn(login, first.jar)
      provider.beforeClaims = async () => {}
      expect([status, second.answer.status]).toEqual([200, 400])
      expect(await second.answer.text()).toContain('no longer valid')
      expect(await nameAt(parley.origin, second.jar)).toBeNull()
      expect(await parley.app.platform.db.prisma.session.count({ where: { viewerId: session.viewerId } })).toBe(0)

      // A new sign-in at the provider works again.
      await until('a later sign-in opens a session', async () => (await signIn(login)).answer.status === 303)
    },
  )

  test('a logout token that is forged, expired, already used or for another client ends no session', async () => {
    const login = account(provider, 'Cora')
    const { jar } = await signIn(login)
    const now = Math.floor(Date.now() / 1000)
    const { privateKey } = await generateKeyPair('RS256')
    const events = { 'http://schemas.openid.net/event/backchannel-logout': {} }
    const forged = new SignJWT({ iss: provider.issuer, aud: CLIENT.id, sub: login, iat: now, jti: 'forged', events })
    const [header = '', body = ''] = (await provider.logoutToken({ sub: login })).split('.')
    const none = Buffer.from(JSON.stringify({ alg: 'none' })).toString('base64url')
    const tokens = [
      await forged.setProtectedHeader({ alg: 'RS256', kid: 'key-1' }).sign(privateKey),
      `${none}.${body}.`,
      `${header}.${body}.AAAA`,
      await provider.logoutToken({ sub: login, aud: 'another client' }),
      await provider.logoutToken({ sub: login, iss: 'https://other.example' }),
      await provider.logoutToken({ sub: login, nonce: 'of an ID token' }),
      await provider.logoutToken({ sub: login, events: {} }),
      await provider.logoutToken({ sub: login, jti: undefined }),
      await provider.logoutToken({ sub: undefined, sid: undefined }),
      await provider.logoutToken({ sub: login, iat: now - 600, exp: now + 600 }),
      await provider.logoutToken({ sub: login, iat: now + 300, exp: now + 600 }),
      await provider.logoutToken({ sub: login, exp: now - 120 }),
      'no token',
    ]
    for (const token of tokens) expect((await logoutAt(parley.origin, token)).status).toBe(400)
    expect(await nameAt(parley.origin, jar)).toBe('Cora')

    // The clocks of the two servers may differ by a minute.
    const valid = await provider.logoutToken({ sub: login, iat: now - 50 })
    const statuses = await Promise.all([1, 2, 3].map(async () => (await logoutAt(parley.origin, valid)).status))
    expect(statuses.toSorted()).toEqual([200, 400, 400])
    await until('the session has ended', async () => (await nameAt(parley.origin, jar)) === null)
    const again = await signIn(login)
    expect((await logoutAt(parley.origin, valid)).status).toBe(400)
    expect(await nameAt(parley.origin, again.jar)).toBe('Cora')
    expect((await logoutAt(parley.origin, await provider.logoutToken({ sub: login, iat: now + 50 }))).status).toBe(200)
  })

  // An embedded server has one process.
  test.runIf(stack === 'postgres')(
    'a sign-in that begins at one process completes at another, and a logout at one ends the session at both',
    async () => {
      const other = await startTestServer({ stack, worker: false, beside: parley, settings: settingsOf(provider) })
      const jar = createCookieJar()
      const login = account(provider, 'Dora')
      const callback = await signInAtProvider(jar, `${parley.origin}/auth/oidc/default`, { login })
      // Browsers send the cookies of a host to each of its ports.
      for (const one of [...jar.cookies].filter(({ origin }) => origin === parley.origin))
        jar.cookies.push({ ...one, origin: other.origin })
      const answer = await jar.request(callback.replace(parley.origin, other.origin))
      expect(answer.status).toBe(303)
      for (const one of [...jar.cookies].filter(({ name }) => name === 'parley_session'))
        jar.cookies.push({ ...one, origin: parley.origin })
      expect([await nameAt(parley.origin, jar), await nameAt(other.origin, jar)]).toEqual(['Dora', 'Dora'])
      // Neither process accepts the attempt again.
      expect((await jar.request(callback.replace(parley.origin, other.origin))).status).toBe(400)
      const token = await provider.logoutToken({ sub: login })
      const both = await Promise.all([parley, other].map(async ({ origin }) => (await logoutAt(origin, token)).status))
      expect(both.toSorted()).toEqual([200, 400])
      for (const { origin } of [parley, other])
        await until('the session has ended', async () => (await nameAt(origin, jar)) === null)
      await other.close()
    },
    30_000,
  )
})

describe('sign-in by OpenID Connect', () => {
  test('works under a path prefix, and its cookies are sent to no other application of the host', async () => {
    const provider = await startIdentityProvider()
    const port = await freePort()
    const base = `http://127.0.0.1:${port}/team`
    const settings = { ...settingsOf(provider), PORT: String(port), PARLEY_PUBLIC_URL: base }
    const parley = await startTestServer({ worker: false, isFresh: true, settings })
    provider.allow(base, ['default'])
    const jar = createCookieJar()
    const login = account(provider, 'Ella')
    const callback = await signInAtProvider(jar, `${base}/auth/oidc/default?to=/waiting`, { login })
    expect(callback).toContain(`${base}/auth/oidc/default/callback?`)
    const answer = await jar.request(callback)
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/team/waiting'])
    const own = jar.cookies.filter(({ origin }) => origin === new URL(base).origin)
    expect(own.map(({ name, path }) => [name, path])).toEqual([['parley_session', '/team']])
    expect(await nameAt(base, jar)).toBe('Ella')
    expect((await logoutAt(base, await provider.logoutToken({ sub: login }))).status).toBe(200)
    await until('the session has ended', async () => (await nameAt(base, jar)) === null)
    await parley.close()
    await provider.close()
  }, 30_000)

  test('a response of one provider neither ends a sign-in at another provider nor sends it a code', async () => {
    const [honest, evil] = [await startIdentityProvider(), await startIdentityProvider()]
    const listed = {
      name: 'evil',
      issuer: evil.issuer,
      clientId: CLIENT.id,
      clientSecret: CLIENT.secret,
      label: 'Evil',
    }
    const settings = { ...settingsOf(honest), PARLEY_OIDC: JSON.stringify([listed]) }
    const parley = await startTestServer({ worker: false, isFresh: true, settings })
    honest.allow(parley.origin, ['default'])
    evil.allow(parley.origin, ['evil'])
    const login = account(honest, 'Fern')
    const jar = createCookieJar()
    const callback = await signInAtProvider(jar, `${parley.origin}/auth/oidc/default`, { login })
    // The code of the honest provider is passed to the callback of the other provider.
    const mixed = callback.replace('/auth/oidc/default/', '/auth/oidc/evil/')
    expect((await jar.request(mixed)).status).toBe(400)
    // The response contains the name of the wrong issuer.
    const again = createCookieJar()
    const other = new URL(await signInAtProvider(again, `${parley.origin}/auth/oidc/default`, { login }))
    other.searchParams.set('iss', evil.issuer)
    expect((await again.request(other.href)).status).toBe(400)
    expect([honest.exchanges, evil.exchanges]).toEqual([0, 0])
    for (const one of [jar, again]) expect(one.valueOf('parley_session')).toBeNull()

    // An account at one provider is not an account at another with the same subject, and neither provider can log the other
    // account out.
    account(evil, 'Fern')
    const [mine, theirs] = [createCookieJar(), createCookieJar()]
    await mine.request(await signInAtProvider(mine, `${parley.origin}/auth/oidc/default`, { login }))
    await theirs.request(await signInAtProvider(theirs, `${parley.origin}/auth/oidc/evil`, { login }))
    const humans = await parley.app.platform.db.prisma.identity.findMany({ where: { subject: login } })
    expect(new Set(humans.map(({ humanId }) => humanId)).size).toBe(2)
    const token = await evil.logoutToken({ sub: login })
    expect((await logoutAt(parley.origin, token, 'default')).status).toBe(400)
    expect((await logoutAt(parley.origin, token, 'evil')).status).toBe(200)
    await until('the other account is signed out', async () => (await nameAt(parley.origin, theirs)) === null)
    expect(await nameAt(parley.origin, mine)).toBe('Fern')
    await parley.close()
    await Promise.all([honest.close(), evil.close()])
  }, 30_000)
})
