import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import WebSocket from 'ws'
import { createSessions } from '../../src/access/sessions.ts'
import { type HumanViewer, OPERATOR_ID, type Viewer } from '../../src/access/viewer.ts'
import { SESSIONS_CHANNEL } from '../../src/broker/topics.ts'
import { newId } from '../../src/lib/ids.ts'
import { createAuthBodies, createAuthHandlers } from '../../src/server/http/auth.ts'
import { RULE_STACKS } from '../support/application.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'
const LIST = '{ viewer { scope human { id } sessions { id device current createdAt lastUsedAt } } }'
const AUDITED =
  'query ($targetId: ID) { auditLog(action: "endSession", targetId: $targetId) { edges { node { refused } } } }'
const END = `mutation ($id: ID) { endSession(input: { id: $id }) {
  __typename ... on EndSessionPayload { endedSessionIds } ... on Error { message } } }`

const OF_HUMAN = 'query ($id: ID!) { node(id: $id) { ... on Human { sessions { id device current } } } }'

interface Listed {
  id: string
  device: string
  current: boolean
}

describe.each(RULE_STACKS)('sessions, on the %s stack', (stack) => {
  let parley: TestServer
  let human: HumanViewer
  beforeAll(async () => {
    const settings = { PARLEY_ALLOWED_ORIGINS: 'https://front.example' }
    parley = await startTestServer({ stack, worker: false, isFresh: true, settings })
    human = await parley.human('Ada')
  })
  afterAll(() => parley?.close())

  const page = (more: Record<string, string> = {}) => ({
    origin: parley.origin,
    'x-parley-csrf': '1',
    'content-type': 'application/json',
    'user-agent': FIREFOX,
    ...more,
  })

  const post = (path: string, body: unknown, headers: Record<string, string>) =>
    fetch(parley.origin + path, { method: 'POST', body: JSON.stringify(body), headers })

  /** Signs in, and returns the Cookie header of the browser. */
  async function signIn(token: string, more: Record<string, string> = {}): Promise<string> {
    const answer = await post('/auth/token', { token }, page(more))
    expect(answer.status).toBe(200)
    return cookieIn(answer).pair
  }

  async function ask(query: string, headers: Record<string, string>, variables: object = {}) {
    const answer = await post('/graphql', { query, variables }, headers)
    return { status: answer.status, headers: answer.headers, ...((await answer.json()) as Answer) }
  }

  const list = async (cookie: string) => (await ask(LIST, page({ cookie }))).data?.viewer as { sessions: Listed[] }

  test('a token opens a session with a cookie that scripts cannot read', async () => {
    const answer = await post('/auth/token', { token: await parley.tokenOf(human) }, page())
    const { pair, attributes } = cookieIn(answer)
    expect(await answer.json()).toEqual({ scope: 'HUMAN' })
    expect(attributes).toEqual(['Path=/', 'Max-Age=2592000', 'HttpOnly', 'SameSite=Lax'])
    const { data } = await ask(LIST, page({ cookie: pair }))
    expect(data?.viewer).toMatchObject({ scope: 'HUMAN', human: { id: human.id } })
    const [row] = await parley.app.platform.db.prisma.session.findMany({ where: { viewerId: human.id } })
    expect(pair).not.toContain(row?.hash)
  })

  test("the operator's cookie ends with the browser, and a service gets no cookie", async () => {
    const operator = await post('/auth/token', { token: await parley.tokenOf(parley.admin) }, page())
    expect(cookieIn(operator).attributes).toEqual(['Path=/', 'HttpOnly', 'SameSite=Lax'])
    expect((await ask(LIST, page({ cookie: cookieIn(operator).pair }))).data?.viewer).toMatchObject({ scope: 'ADMIN' })
    const service = { scope: 'SERVICE', id: '', name: 'Jira', agentIds: null, tokenId: null, expiresAt: null } as const
    const refused = await post('/auth/token', { token: await parley.tokenOf(service) }, page())
    expect([refused.status, refused.headers.getSetCookie()]).toEqual([403, []])
  })

  test.each([
    ['forwards its host', () => ({ origin: 'https://parley.example', 'x-forwarded-host': 'parley.example' })],
    ['keeps the host', () => ({ origin: parley.origin.replace('http:', 'https:') })],
    ['has an allowed origin, and forwards nothing', () => ({ origin: 'https://front.example' })],
  ])('behind a proxy that %s, the cookie is sent over https only', async (_, headers) => {
    const answer = await post('/auth/token', { token: await parley.tokenOf(human) }, page(headers()))
    expect(cookieIn(answer).attributes).toContain('Secure')
  })

  test('a request that does not reveal whether it arrived over https leaves the renewal to the next one that does', async () => {
    const own = await parley.human('Nora')
    const origin = parley.origin.replace('http:', 'https:')
    const cookie = await signIn(await parley.tokenOf(own), { origin })
    await age(own, { expiresInMs: DAY_MS })
    const read = await fetch(`${parley.origin}/auth/session`, { headers: { cookie, 'x-parley-csrf': '1' } })
    expect([await read.json(), read.headers.getSetCookie()]).toEqual([{ scope: 'HUMAN', mail: false }, []])
    const posted = await ask(LIST, page({ cookie, origin }))
    expect(posted.headers.getSetCookie()).toEqual([expect.stringMatching(/Max-Age=25\d{5};.*Secure$/)])
  })

  test.each([
    [200, 'without Sec-Fetch-Site', {}],
    [200, 'of the same origin', { 'sec-fetch-site': 'same-origin' }],
    [403, 'of another site', { 'sec-fetch-site': 'cross-site' }],
    [403, 'of another origin', { origin: 'https://evil.example' }],
  ])('a GET request with a session cookie gets %i if it is %s', async (status, _, headers) => {
    const cookie = await signIn(await parley.tokenOf(human))
    const sent = { headers: { cookie, 'x-parley-csrf': '1', ...(headers as Record<string, string>) } }
    expect((await fetch(`${parley.origin}/auth/session`, sent)).status).toBe(status)
  })

  test.each([
    ['without the header', { origin: 'own' }],
    ['from a page of another site', { origin: 'https://evil.example', 'x-parley-csrf': '1' }],
    ['without an origin', { 'x-parley-csrf': '1' }],
  ])('a request with a session cookie is refused %s; with a bearer token it is accepted', async (_, given) => {
    const token = await parley.tokenOf(human)
    const cookie = await signIn(token)
    const headers: Record<string, string> = { 'content-type': 'application/json', ...given }
    if (headers['origin'] === 'own') headers['origin'] = parley.origin
    const refused = await ask(LIST, { ...headers, cookie })
    expect([refused.status, refused.errors?.[0]?.extensions.code]).toEqual([403, 'FORBIDDEN'])
    expect((await post('/auth/sign-out', {}, { ...headers, cookie })).status).toBe(403)
    const bearer = await ask(LIST, { ...headers, cookie, authorization: `Bearer ${token}` })
    expect(bearer.data?.viewer).toMatchObject({ scope: 'HUMAN' })
  })

  test('a page of another site cannot sign a browser in, and the error for a wrong token says what to do', async () => {
    const token = await parley.tokenOf(human)
    const foreign = await post('/auth/token', { token }, page({ origin: 'https://evil.example' }))
    expect([foreign.status, foreign.headers.getSetCookie()]).toEqual([403, []])
    const wrong = await post('/auth/token', { token: `${token}x` }, page())
    expect(wrong.status).toBe(401)
    expect(await wrong.json()).toEqual({
      error: 'The token is unknown, revoked or expired. Sign in with another one.',
    })
    const signedOut = await post('/auth/sign-out', {}, { origin: 'https://evil.example' })
    expect([signedOut.status, signedOut.headers.getSetCookie()]).toEqual([403, []])
    for (const body of [null, {}, { token: 1 }, 'x']) expect((await post('/auth/token', body, page())).status).toBe(400)
    expect((await fetch(`${parley.origin}/auth/token`)).status).toBe(405)
  })

  test('a bearer token wins over the cookie, even if it is wrong', async () => {
    const cookie = await signIn(await parley.tokenOf(human))
    const other = await parley.human('Bob')
    const authorization = `Bearer ${await parley.tokenOf(other)}`
    expect((await ask(LIST, page({ cookie, authorization }))).data?.viewer).toMatchObject({ human: { id: other.id } })
    expect((await ask(LIST, page({ cookie, authorization: 'Bearer nonsense' }))).status).toBe(401)
  })

  test("the Authorization of a proxy's password does not hide the cookie", async () => {
    const cookie = await signIn(await parley.tokenOf(human))
    const authorization = 'Basic cGFybGV5OnBhcmxleQ=='
    const headers = page({ cookie, authorization })
    expect((await ask(LIST, headers)).data?.viewer).toMatchObject({ human: { id: human.id } })
    const described = await fetch(`${parley.origin}/auth/session`, { headers })
    expect(await described.json()).toEqual({ scope: 'HUMAN', mail: false })
    const { socket, closed } = await openSocket(headers)
    expect(closed()).toBeNull()
    socket.terminate()
    expect((await ask(LIST, page({ authorization }))).status).toBe(401)
  })

  test('a page can check without an error whether its browser has a session', async () => {
    const cookie = await signIn(await parley.tokenOf(human))
    const scopeOf = async (headers: Record<string, string>) =>
      (await (await fetch(`${parley.origin}/auth/session`, { headers })).json()) as object
    expect(await scopeOf(page())).toEqual({ scope: null, mail: false })
    expect(await scopeOf(page({ cookie }))).toEqual({ scope: 'HUMAN', mail: false })
    const authorization = `Bearer ${await parley.tokenOf(parley.admin)}`
    expect(await scopeOf({ authorization })).toEqual({ scope: 'ADMIN', mail: false })
    expect(await scopeOf({ authorization: 'Bearer wrong' })).toEqual({ scope: null, mail: false })
    await post('/auth/sign-out', {}, page({ cookie }))
    expect(await scopeOf(page({ cookie }))).toEqual({ scope: null, mail: false })
  })

  test('a new sign-in replaces the session that the browser had', async () => {
    const own = await parley.human('Cleo')
    const token = await parley.tokenOf(own)
    const first = await signIn(token)
    const second = await signIn(token, { cookie: first })
    expect(second).not.toBe(first)
    expect((await ask(LIST, page({ cookie: first }))).status).toBe(401)
    expect((await list(second)).sessions).toHaveLength(1)
  })

  test('sessions are listed with their device, and can be ended one by one, or all except the current one', async () => {
    const own = await parley.human('Dora')
    const token = await parley.tokenOf(own)
    const [here, there, elsewhere] = [await signIn(token), await signIn(token), await signIn(token)]
    const { sessions } = await list(here)
    expect(sessions.map(({ device }) => device)).toEqual(Array(3).fill('Firefox on Linux'))
    expect(sessions.filter(({ current }) => current)).toHaveLength(1)
    const other = (await list(there)).sessions.find(({ current }) => current)?.id
    const ended = await ask(END, page({ cookie: here }), { id: other })
    expect(ended.data?.endSession).toEqual({ __typename: 'EndSessionPayload', endedSessionIds: [other] })
    expect((await ask(LIST, page({ cookie: there }))).status).toBe(401)
    expect((await ask(END, page({ cookie: here }), { id: other })).data?.endSession).toMatchObject({
      __typename: 'NotFoundError',
    })
    const admin = await parley.clientOf(parley.admin)
    const audited = (await admin.ask<Answer['data']>(AUDITED, { targetId: other })).data
    expect(audited?.auditLog.edges).toEqual([{ node: { refused: false } }])
    await ask(END, page({ cookie: here }))
    expect((await ask(LIST, page({ cookie: elsewhere }))).status).toBe(401)
    expect((await list(here)).sessions).toHaveLength(1)
  })

  test("an admin lists and ends another person's sessions; other people cannot list them", async () => {
    const own = await parley.human('Lea')
    const cookie = await signIn(await parley.tokenOf(own))
    const admin = await parley.clientOf(parley.admin)
    const [{ id }] = (await list(cookie)).sessions as [Listed]
    const listed = await admin.ask<Answer['data']>(OF_HUMAN, { id: own.id })
    expect(listed.data?.node.sessions).toEqual([{ id, device: 'Firefox on Linux', current: false }])
    expect((await ask(OF_HUMAN, page({ cookie }), { id: own.id })).data?.node.sessions).toHaveLength(1)
    const other = await parley.human('Max')
    const memberIds = [own.id, other.id]
    await parley.app.domain.spaces.create(parley.admin, { name: 'Garden', routing: 'BROADCAST', memberIds })
    const asOther = await parley.clientOf(other)
    expect((await asOther.ask<Answer['data']>(OF_HUMAN, { id: own.id })).data?.node).toEqual({ sessions: null })

    const wrong = await admin.ask<Answer['data']>(END, { id: own.id })
    expect(wrong.data?.endSession).toMatchObject({
      __typename: 'NotFoundError',
      message: expect.stringMatching(/^Pass the id of a session \(`ses_…`\), not of a person\./),
    })
    expect((await admin.ask<Answer['data']>(END, { id })).data?.endSession.endedSessionIds).toEqual([id])
    expect((await ask(LIST, page({ cookie }))).status).toBe(401)
    expect((await admin.ask<Answer['data']>(OF_HUMAN, { id: own.id })).data?.node.sessions).toEqual([])
  })

  test("nobody sees or ends another person's session", async () => {
    const victim = await signIn(await parley.tokenOf(await parley.human('Eve')))
    const id = (await list(victim)).sessions[0]?.id
    const cookie = await signIn(await parley.tokenOf(human))
    expect((await ask(END, page({ cookie }), { id })).data?.endSession).toMatchObject({ __typename: 'NotFoundError' })
    const { data } = await ask('query ($id: ID!) { node(id: $id) { id } }', page({ cookie }), { id })
    expect(data).toEqual({ node: null })
    expect((await list(victim)).sessions).toHaveLength(1)
  })

  test('signing out ends the session and its socket; so does revoking the token that opened the session', async () => {
    const own = await parley.human('Finn')
    const { accessToken, secret } = await parley.app.domain.tokens.create(parley.admin, { grant: { humanId: own.id } })
    const [first, second] = [await signIn(secret), await signIn(secret)]
    const sockets = await Promise.all([first, second].map((cookie) => openSocket({ cookie, origin: parley.origin })))
    const left = await post('/auth/sign-out', {}, page({ cookie: first }))
    expect([left.status, cookieIn(left).attributes]).toEqual([204, expect.arrayContaining(['Max-Age=0'])])
    await until('the socket of the session is closed', () => sockets[0]?.closed() !== null)
    expect([sockets[0]?.errors(), sockets[0]?.closed()]).toEqual([1, 4403])
    expect((await ask(LIST, page({ cookie: first }))).status).toBe(401)
    expect([sockets[1]?.errors(), sockets[1]?.closed()]).toEqual([0, null])
    await parley.app.domain.tokens.revoke(parley.admin, { id: accessToken.id })
    await until('the other socket is closed', () => sockets[1]?.closed() !== null)
    expect([sockets[1]?.errors(), sockets[1]?.closed()]).toEqual([1, 4403])
    expect((await ask(LIST, page({ cookie: second }))).status).toBe(401)
  })

  test('a token that is revoked while it opens a session leaves no session, and a session ends with its human', async () => {
    const own = await parley.human('Ida')
    const { accessToken, secret } = await parley.app.domain.tokens.create(parley.admin, { grant: { humanId: own.id } })
    const viewer = await parley.app.domain.tokens.authenticate(secret)
    await parley.app.domain.tokens.revoke(parley.admin, { id: accessToken.id })
    const opening = parley.app.domain.sessions.open(viewer as Viewer, { userAgent: undefined, replaced: [] })
    await expect(opening).rejects.toThrow('The token was revoked. Sign in with another one.')
    // How a process of an older version revokes tokens and erases people.
    const cookie = await signIn(await parley.tokenOf(own))
    const { prisma } = parley.app.platform.db
    await prisma.accessToken.updateMany({ where: { humanId: own.id }, data: { revokedAt: new Date() } })
    expect((await ask(LIST, page({ cookie }))).status).toBe(401)
  })

  test('changing the admin token ends the operator’s sessions, which are no longer listed', async () => {
    const { platform, domain } = parley.app
    const operator = { scope: 'ADMIN', id: OPERATOR_ID, tokenId: null, expiresAt: null } as const
    const { secret } = await domain.sessions.open(operator, { userAgent: undefined, replaced: [] })
    const resumed = await domain.sessions.authenticate(secret, { renews: true })
    expect(resumed).toMatchObject({ viewer: { scope: 'ADMIN', id: OPERATOR_ID } })
    const ids = [resumed?.viewer.tokenId ?? '']
    expect((await domain.sessions.list(operator)).map(({ id }) => id)).toContain(ids[0])
    expect(await domain.sessions.getMany(operator, ids)).toMatchObject([{ id: ids[0] }])
    const rotated = createSessions(platform, 'another-admin-token-of-32-or-more-characters')
    expect(await rotated.authenticate(secret, { renews: true })).toBeNull()
    expect([await rotated.list(operator), await rotated.getMany(operator, ids)]).toEqual([[], [null]])
  })

  test('changing the JWT secret ends the sessions that were opened with a JWT', async () => {
    const { platform, domain } = parley.app
    const viewer = { scope: 'HUMAN', id: human.id, tokenId: null, expiresAt: null } as const
    const { secret } = await domain.sessions.open(viewer, { userAgent: undefined, replaced: [] })
    expect(await domain.sessions.authenticate(secret, { renews: true })).toMatchObject({ viewer: { id: human.id } })
    const jwt = { ...platform.config.jwt, secret: 'another-secret-of-jwts-of-32-or-more-characters' }
    const rotated = createSessions({ ...platform, config: { ...platform.config, jwt } }, 'any')
    expect(await rotated.authenticate(secret, { renews: true })).toBeNull()
  })

  test('a human may sign in without a token: the session is new and audited, and ends with the human', async () => {
    const own = await parley.human('Lea')
    const { sessions } = parley.app.domain
    const before = await signIn(await parley.tokenOf(own))
    const replaced = [before.split('=')[1] ?? '']
    const { secret } = await sessions.openForHuman({ humanId: own.id, by: 'mail', userAgent: FIREFOX, replaced })
    const cookie = `parley_session=${secret}`
    const { sessions: open } = await list(cookie)
    expect(open).toMatchObject([{ device: 'Firefox on Linux', current: true }])
    expect((await ask(LIST, page({ cookie: before }))).status).toBe(401)
    const { prisma } = parley.app.platform.db
    const deed = await prisma.auditEntry.findFirst({ where: { targetId: open[0]?.id ?? '' } })
    expect(deed).toMatchObject({ action: 'signIn', actorId: own.id, detail: { by: 'mail' } })
    const { socket, closed } = await openSocket({ cookie, origin: parley.origin })
    await parley.app.domain.deletion.eraseHuman(parley.admin, { id: own.id, messages: false })
    await until('the socket is closed', () => closed() !== null)
    socket.terminate()
    expect((await ask(LIST, page({ cookie }))).status).toBe(401)
    const again = sessions.openForHuman({ humanId: own.id, by: 'mail', userAgent: undefined, replaced: [] })
    await expect(again).rejects.toThrow('This person was erased')
  })

  test('a picture is shown to those who see the human', async () => {
    const own = await parley.human('Pia')
    const picture = 'https://example.com/pia.png'
    await parley.app.platform.db.prisma.entity.update({ where: { id: own.id }, data: { picture } })
    const query = 'query ($id: ID!) { node(id: $id) { ... on Human { picture } } }'
    const cookie = await signIn(await parley.tokenOf(own))
    expect((await ask(query, page({ cookie }), { id: own.id })).data).toEqual({ node: { picture } })
    const other = await signIn(await parley.tokenOf(await parley.human('Stranger')))
    expect((await ask(query, page({ cookie: other }), { id: own.id })).data).toEqual({ node: null })
    await parley.app.domain.deletion.eraseHuman(parley.admin, { id: own.id, messages: false })
    expect(await parley.app.platform.db.prisma.entity.findUnique({ where: { id: own.id } })).toMatchObject({
      picture: null,
    })
  })

  test('a sign-in deletes some expired sessions, and publishes no events for them', async () => {
    const { prisma } = parley.app.platform.db
    const own = await parley.human('Mona')
    const times = { createdAt: new Date(0), lastUsedAt: new Date(0), expiresAt: new Date(1000) }
    const former = { scope: 'HUMAN' as const, viewerId: own.id, tokenId: null, device: '', endsBy: null, ...times }
    const rows = Array.from({ length: 502 }, (_, n) => ({ ...former, id: newId('ses'), hash: `former-${n}` }))
    await prisma.session.createMany({ data: rows })
    const publish = vi.spyOn(parley.app.platform.signals, 'publish')
    await signIn(await parley.tokenOf(own))
    expect(await prisma.session.count({ where: { hash: { startsWith: 'former-' } } })).toBe(2)
    expect(publish.mock.calls.filter(([channel]) => channel === SESSIONS_CHANNEL)).toEqual([])
    await prisma.session.deleteMany({ where: { hash: { startsWith: 'former-' } } })
  })

  test('a client that disconnects in the middle of its sign-in causes no error', async () => {
    const auth = createAuthHandlers({ origins: { allows: () => true }, bodies: createAuthBodies() } as never)[
      '/auth/token'
    ]
    const { promise: handled, resolve } = Promise.withResolvers<unknown>()
    const server = createServer((request, response) => resolve(auth?.(request, response)))
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
    server.on('request', (request) => request.once('data', () => client.destroy()))
    client.write('POST /auth/token HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"token"')
    await expect(handled).resolves.toBeUndefined()
    server.close()
  })

  test('a socket by cookie needs an allowed origin', async () => {
    const cookie = await signIn(await parley.tokenOf(human))
    const socket = await openSocket({ cookie })
    await until('the socket is closed', () => socket.closed() !== null)
    expect(socket.closed()).toBe(4403)
  })

  test('an erased person has no session', async () => {
    const own = await parley.human('Gus')
    const cookie = await signIn(await parley.tokenOf(own))
    await list(cookie)
    await parley.app.domain.deletion.eraseHuman(parley.admin, { id: own.id, messages: false })
    await until('the cookie is refused', async () => (await ask(LIST, page({ cookie }))).status === 401)
    expect(await parley.app.platform.db.prisma.session.count({ where: { viewerId: own.id } })).toBe(0)
  })

  const DAY_MS = 86_400_000

  /** Sets the last use of a human's sessions to an hour ago. */
  async function age({ id }: HumanViewer, { expiresInMs }: { expiresInMs: number }): Promise<void> {
    const data = { lastUsedAt: new Date(Date.now() - 3_600_000), expiresAt: new Date(Date.now() + expiresInMs) }
    await parley.app.platform.db.prisma.session.updateMany({ where: { viewerId: id }, data })
  }

  test('a session that is used is extended, and the browser keeps its cookie for longer', async () => {
    const own = await parley.human('Hal')
    const cookie = await signIn(await parley.tokenOf(own))
    const { prisma } = parley.app.platform.db
    await age(own, { expiresInMs: 60_000 })
    const used = await ask(LIST, page({ cookie }))
    expect(used.headers.getSetCookie()[0]).toContain(cookie)
    const [row] = await prisma.session.findMany({ where: { viewerId: own.id } })
    expect(row?.expiresAt.getTime()).toBeGreaterThan(Date.now() + 29 * DAY_MS)
    await age(own, { expiresInMs: -1 })
    const reread = await signIn(await parley.tokenOf(own))
    expect((await list(reread)).sessions).toHaveLength(1)
  })

  test('a use within a day of the last renewal is recorded, but sets no cookie, which could outlive a sign-out', async () => {
    const own = await parley.human('Kim')
    const cookie = await signIn(await parley.tokenOf(own))
    await age(own, { expiresInMs: 29.5 * DAY_MS })
    const { prisma } = parley.app.platform.db
    const [before] = await prisma.session.findMany({ where: { viewerId: own.id } })
    expect((await ask(LIST, page({ cookie }))).headers.getSetCookie()).toEqual([])
    const [after] = await prisma.session.findMany({ where: { viewerId: own.id } })
    expect(after?.expiresAt).toEqual(before?.expiresAt)
    expect(after?.lastUsedAt.getTime()).toBeGreaterThan(before?.lastUsedAt.getTime() ?? 0)
  })

  interface Opened {
    socket: WebSocket
    errors(): number
    closed(): number | null
  }

  /** Opens a socket with a subscription to the viewer's events. */
  async function openSocket(headers: Record<string, string>): Promise<Opened> {
    const socket = new WebSocket(`${parley.origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws', { headers })
    let [errors, closed, isReady]: [number, number | null, boolean] = [0, null, false]
    socket.on('open', () => socket.send('{"type":"connection_init"}'))
    socket.on('message', (data) => {
      const { type } = JSON.parse(String(data)) as { type: string }
      if (type === 'error') errors += 1
      if (type === 'connection_ack') {
        const query = 'subscription { viewerEvents { __typename } }'
        socket.send(JSON.stringify({ id: '1', type: 'subscribe', payload: { query } }))
        socket.send('{"type":"ping"}')
      }
      if (type === 'pong') isReady = true
    })
    socket.on('close', (code) => {
      closed = code
    })
    await until('the socket is ready, or closed', () => isReady || closed !== null)
    return { socket, errors: () => errors, closed: () => closed }
  }
})

interface Answer {
  // biome-ignore lint/suspicious/noExplicitAny: results of several operations
  data?: any
  errors?: { message: string; extensions: { code: string } }[]
}

function cookieIn(answer: Response): { pair: string; attributes: string[] } {
  const [cookie = ''] = answer.headers.getSetCookie()
  const [pair = '', ...attributes] = cookie.split('; ')
  return { pair, attributes }
}
