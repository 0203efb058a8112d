import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
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

const ME = '{ viewer { scope human { id name picture email role } sessions { id current } } }'

describe.each(RULE_STACKS)('sign-in by OpenID Connect, on the %s stack', (stack) => {
  let provider: TestIdentityProvider
  let parley: TestServer
  beforeAll(async () => {
    provider = await startIdentityProvider()
    const settings = {
      PARLEY_OIDC_ISSUER: provider.issuer,
      PARLEY_OIDC_CLIENT_ID: CLIENT.id,
      PARLEY_OIDC_CLIENT_SECRET: CLIENT.secret,
      PARLEY_OIDC_ALLOW: 'domain:example.com',
      PARLEY_OIDC_ADMIN: 'groups=admins',
    }
    parley = await startTestServer({ stack, worker: false, isFresh: true, settings })
    provider.allow(parley.origin, ['default'])
  })
  afterAll(async () => {
    await parley?.close()
    await provider?.close()
  })

  const account = (name: string, more: object = {}) => {
    const login = name.toLowerCase()
    provider.accounts[login] = { name, email: `${login}@example.com`, email_verified: true, ...more }
    return login
  }
  const start = (to = '') => `${parley.origin}/auth/oidc/default${to === '' ? '' : `?to=${encodeURIComponent(to)}`}`

  /** Signs in with a new browser, or the given one. Returns the response of the callback. */
  async function signIn(login: string, { jar = createCookieJar(), to = '' }: { jar?: CookieJar; to?: string } = {}) {
    const answer = await jar.request(await signInAtProvider(jar, start(to), { login }))
    return { jar, answer, location: answer.headers.get('location'), page: await answer.text() }
  }

  async function me(jar: CookieJar) {
    const headers = { origin: parley.origin, 'x-parley-csrf': '1', 'content-type': 'application/json' }
    const body = JSON.stringify({ query: ME })
    const answer = await jar.request(`${parley.origin}/graphql`, { method: 'POST', headers, body })
    // biome-ignore lint/suspicious/noExplicitAny: the type is the result of the query ME
    return ((await answer.json()) as any).data?.viewer
  }

  test('the first sign-in creates a person; the second finds that person and updates the name', async () => {
    const picture = 'https://example.com/ada.png'
    const login = account('Ada', { picture })
    const { jar, location } = await signIn(login, { to: '/waiting' })
    expect(location).toBe('/waiting')
    const first = await me(jar)
    expect(first).toMatchObject({
      scope: 'HUMAN',
      human: { name: 'Ada', picture, email: 'ada@example.com', role: 'MEMBER' },
    })
    account('Ada', { name: 'Ada Lovelace' })
    const second = await me((await signIn(login)).jar)
    expect(second.human).toEqual({ ...first.human, name: 'Ada Lovelace', picture: null })
  })

  test('a name that was changed here stays until it changes at the provider', async () => {
    const login = account('Bea')
    const { human } = await me((await signIn(login)).jar)
    await parley.app.domain.humans.update(parley.admin, { id: human.id, name: 'Beatrice' })
    expect((await me((await signIn(login)).jar)).human.name).toBe('Beatrice')
    account('Bea', { name: 'Bea B.' })
    expect((await me((await signIn(login)).jar)).human.name).toBe('Bea B.')
  })

  test('people are not linked by e-mail address', async () => {
    const other = await parley.human('Cid')
    await parley.app.domain.humans.update(parley.admin, { id: other.id, email: 'cid@example.com' })
    const { human } = await me((await signIn(account('Cid'))).jar)
    expect(human.id).not.toBe(other.id)
    expect(human.email).toBeNull()
  })

  test('the admin claim grants the role, and its absence revokes only a role that it granted', async () => {
    const login = account('Dan', { groups: ['staff', 'admins'] })
    const { jar } = await signIn(login)
    const { human } = await me(jar)
    expect(human.role).toBe('ADMIN')
    account('Dan', { groups: ['staff'] })
    expect((await me((await signIn(login)).jar)).human.role).toBe('MEMBER')
    expect(await me(jar)).toBeUndefined()
    await parley.app.domain.humans.update(parley.admin, { id: human.id, role: 'ADMIN' })
    expect((await me((await signIn(login)).jar)).human.role).toBe('ADMIN')
  })

  test.each([
    ['an address that is not verified', { email_verified: false }, 'Verify your address'],
    ['no statement about the address', { email_verified: undefined }, 'Verify your address'],
    ['the text "true" as the statement', { email_verified: 'true' }, 'Verify your address'],
    ['another domain', { email: 'eve@evil.example' }, 'not in a domain'],
    ['a domain that ends like an allowed one', { email: 'eve@notexample.com' }, 'not in a domain'],
    ['a subdomain', { email: 'eve@sub.example.com' }, 'not in a domain'],
    ['no address', { email: undefined }, 'Verify your address'],
  ])('a page tells a person with %s whom to ask, and no person is created', async (_, claims, text) => {
    const { answer, page, jar } = await signIn(account('Eve', claims))
    expect([answer.status, jar.valueOf('parley_session')]).toEqual([403, null])
    expect(page).toContain(text)
    expect(page).toContain('admin')
    expect(await parley.app.platform.db.prisma.identity.count({ where: { subject: 'eve' } })).toBe(0)
  })

  test('a page tells a person who refuses consent how to continue', async () => {
    const jar = createCookieJar()
    const callback = await signInAtProvider(jar, start(), { login: account('Fay'), consents: false })
    const answer = await jar.request(callback)
    expect(answer.status).toBe(403)
    expect(await answer.text()).toContain('Try again')
  })

  test('a response works once, and only in the browser that began the sign-in', async () => {
    const jar = createCookieJar()
    const callback = await signInAtProvider(jar, start(), { login: account('Gil') })
    const thief = createCookieJar()
    const stolen = await thief.request(callback)
    expect([stolen.status, thief.valueOf('parley_session')]).toEqual([400, null])
    // An attacker who has started a sign-in cannot replace the state with theirs.
    await thief.follow(start(), {}, (url) => url.startsWith(provider.issuer))
    expect((await thief.request(callback)).status).toBe(400)
    const kept = jar.cookies.filter(({ name }) => name.startsWith('parley_oidc_'))
    expect((await jar.request(callback)).status).toBe(303)
    expect((await jar.request(callback)).status).toBe(400)
    // The browser sends the cookie again, but the provider rejects the code.
    jar.cookies.push(...kept)
    const replayed = await jar.request(callback)
    expect([replayed.status, await replayed.text()]).toEqual([400, expect.stringContaining('already used')])
  })

  test.each(['//evil.example', 'https://evil.example', '/\\evil.example', '/auth/oidc/default'])(
    'the browser is not sent to %s after a sign-in',
    async (to) => {
      expect((await signIn(account('Hal'), { to })).location).toBe('/')
    },
  )

  test('a sign-in replaces the session that the browser had', async () => {
    const { jar } = await signIn(account('Ida'))
    const before = jar.valueOf('parley_session')
    await signIn('ida', { jar })
    expect(jar.valueOf('parley_session')).not.toBe(before)
    expect((await me(jar)).sessions).toHaveLength(1)
  })

  test('keys of the provider may be rotated', async () => {
    await signIn(account('Jon'))
    await provider.rotateKeys()
    // The server reads the keys again at most once a second.
    await until('the new keys are accepted', async () => (await signIn('jon')).answer.status === 303)
  })

  test('while the provider is down, a page says what to do, and tokens work', async () => {
    const human = await parley.human('Kay')
    const jar = createCookieJar()
    const callback = await signInAtProvider(jar, start(), { login: account('Kay') })
    provider.isDown = true
    const answer = await jar.request(callback)
    provider.isDown = false
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '10'])
    expect(await answer.text()).toContain('cannot be reached')
    const client = await parley.clientOf(human)
    expect((await client.ask<object>('{ viewer { scope } }')).data).toEqual({ viewer: { scope: 'HUMAN' } })
  })

  test('a logout at the provider ends the session here', async () => {
    const { jar } = await signIn(account('Lou'))
    expect(await me(jar)).toMatchObject({ human: { name: 'Lou' } })
    const page = await (await jar.request(`${provider.issuer}/session/end`)).text()
    const xsrf = /name="xsrf" value="([^"]+)"/.exec(page)?.[1] ?? ''
    const body = new URLSearchParams({ xsrf, logout: 'yes' })
    await jar.request(`${provider.issuer}/session/end/confirm`, { method: 'POST', body })
    await until('the session has ended', async () => (await me(jar)) === undefined)
  })

  test('an erased person is no longer linked, and signs in as a new person', async () => {
    const login = account('Max')
    const { jar } = await signIn(login)
    const { human } = await me(jar)
    await parley.app.domain.deletion.eraseHuman(parley.admin, { id: human.id, messages: false })
    expect(await parley.app.platform.db.prisma.identity.count({ where: { humanId: human.id } })).toBe(0)
    expect((await me((await signIn(login)).jar)).human.id).not.toBe(human.id)
  })

  test('refuses unknown providers, other methods and link previews', async () => {
    expect((await fetch(`${parley.origin}/auth/oidc/other`)).status).toBe(404)
    expect((await fetch(start(), { method: 'POST' })).status).toBe(405)
    expect((await fetch(start(), { method: 'HEAD', redirect: 'manual' })).headers.getSetCookie()).toEqual([])
    expect(await (await fetch(`${parley.origin}/auth/oidc`)).json()).toEqual({
      providers: [{ name: 'default', label: new URL(provider.issuer).host }],
    })
  })
})
