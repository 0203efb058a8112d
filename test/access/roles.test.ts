import { SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { RULE_STACKS } from '../support/application.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const JWT_SECRET = 'a-secret-of-jwts-for-tests-of-32-or-more'
const CREATE_AGENT = `mutation ($name: String!) { createAgent(input: { name: $name, instructions: "" }) {
  __typename ... on CreateAgentPayload { agent { id } } ... on Error { message } } }`
const SET_ROLE = `mutation ($id: ID!, $role: HumanRole!) { updateHuman(input: { id: $id, role: $role }) {
  __typename ... on UpdateHumanPayload { human { role } } ... on Error { message } } }`
const SEND = `mutation ($spaceId: ID!, $text: String!) { sendMessage(input: { spaceId: $spaceId, text: $text }) {
  __typename ... on SendMessagePayload { sentMessage { id sender { id } actingAdmin { id } } } ... on Error { message } } }`
const ACT_AS = `mutation ($humanId: ID!) { actAs(input: { humanId: $humanId }) {
  __typename ... on ActAsPayload { secret expiresAt } ... on Error { message } } }`
const SESSIONS = '{ viewer { scope sessions { id device current actingAdmin { id } } } }'
const END = `mutation ($id: ID) { endSession(input: { id: $id }) {
  __typename ... on EndSessionPayload { endedSessionIds } ... on Error { message } } }`

type Headers = Record<string, string>

describe.each(RULE_STACKS)('the role of a human, on the %s stack', (stack) => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({ stack, worker: false, settings: { AUTH_JWT_SECRET: JWT_SECRET } })
  })
  afterAll(() => parley?.close())

  const bearer = (token: string): Headers => ({ authorization: `Bearer ${token}` })
  const operator = async () => bearer(await parley.tokenOf(parley.admin))

  async function ask(query: string, headers: Headers, variables: object = {}) {
    const answer = await fetch(`${parley.origin}/graphql`, {
      method: 'POST',
      body: JSON.stringify({ query, variables }),
      headers: { 'content-type': 'application/json', ...headers },
    })
    // biome-ignore lint/suspicious/noExplicitAny: results of several operations
    const result = (await answer.json()) as { data?: any; errors?: object[] }
    if (answer.status === 200) expect(result.errors).toBeUndefined()
    return { status: answer.status, ...result }
  }

  /** A session can stay cached for a moment, until the signal that it has ended arrives. */
  const refused = (headers: Headers) =>
    until('the credential is refused', async () => (await ask(SESSIONS, headers)).status === 401)

  const typeOf = async (query: string, headers: Headers, variables: object = {}): Promise<string> =>
    (Object.values((await ask(query, headers, variables)).data ?? {})[0] as { __typename: string }).__typename

  const mayCreateAgents = async (headers: Headers) =>
    (await typeOf(CREATE_AGENT, headers, { name: 'Made by a person' })) === 'CreateAgentPayload'

  async function adminHuman(name: string): Promise<HumanViewer> {
    const human = await parley.human(name)
    expect(await typeOf(SET_ROLE, await operator(), { id: human.id, role: 'ADMIN' })).toBe('UpdateHumanPayload')
    return human
  }

  async function sessionOf(human: HumanViewer): Promise<Headers> {
    const page = { origin: parley.origin, 'x-parley-csrf': '1', 'content-type': 'application/json' }
    const body = JSON.stringify({ token: await parley.tokenOf(human) })
    const answer = await fetch(`${parley.origin}/auth/token`, { method: 'POST', body, headers: page })
    expect(answer.status).toBe(200)
    return { ...page, cookie: answer.headers.getSetCookie()[0]?.split(';')[0] ?? '' }
  }

  const jwtOf = async ({ id }: HumanViewer): Promise<Headers> => {
    const jwt = new SignJWT().setProtectedHeader({ alg: 'HS256' }).setSubject(id).setExpirationTime('1h')
    return bearer(await jwt.sign(new TextEncoder().encode(JWT_SECRET)))
  }

  /** Opens a socket with a subscription to the viewer's events. */
  async function socketOf(headers: Headers) {
    const socket = new WebSocket(`${parley.origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws', { headers })
    let [closed, isReady]: [number | null, boolean] = [null, false]
    socket.on('open', () => socket.send('{"type":"connection_init"}'))
    socket.on('message', (data) => {
      const { type } = JSON.parse(String(data)) as { type: string }
      if (type === 'connection_ack') {
        const query = 'subscription { viewerEvents { __typename } }'
        socket.send(JSON.stringify({ id: '1', type: 'subscribe', payload: { query } }))
      }
      if (type === 'next') isReady = true
    })
    socket.on('close', (code) => {
      closed = code
    })
    await until('the socket is ready, or closed', () => isReady || closed !== null)
    return { closed: () => closed }
  }

  test('applies to sessions and JWTs, and never to access tokens', async () => {
    const ada = await adminHuman('Ada')
    expect(await mayCreateAgents(await sessionOf(ada))).toBe(true)
    expect(await mayCreateAgents(await jwtOf(ada))).toBe(true)
    expect(await mayCreateAgents(bearer(await parley.tokenOf(ada)))).toBe(false)
    const bob = await parley.human('Bob')
    expect(await mayCreateAgents(await sessionOf(bob))).toBe(false)
    expect(await mayCreateAgents(await jwtOf(bob))).toBe(false)
  })

  test('lets a person do what the operator may do, and post as themselves', async () => {
    const ada = await adminHuman('Ada')
    const cookie = await sessionOf(ada)
    const bob = await parley.human('Bob')
    const agent = await parley.agent('Echo', { instructions: 'hidden' })
    const secret = await parley.space(bob, [agent.id], { name: 'Of Bob' })
    const { message } = await parley.send(bob, secret.id, 'hello')
    const { data } = await ask(
      `query ($space: ID!, $agent: ID!, $message: ID!, $human: ID!) {
        viewer { scope isAdmin human { id role } }
        space(id: $space) { name }
        message(id: $message) { id outcomes { run { internals { __typename } } } }
        agent(id: $agent) { internals { __typename } }
        node(id: $human) { ... on Human { name externalId } }
        auditLog(first: 1) { edges { node { id } } }
        accessTokens(first: 1) { edges { node { id } } }
        failedJobs(first: 1) { edges { node { id } } }
      }`,
      cookie,
      { space: secret.id, agent: agent.id, message: message.id, human: bob.id },
    )
    expect(data).toMatchObject({
      viewer: { scope: 'HUMAN', isAdmin: true, human: { id: ada.id, role: 'ADMIN' } },
      space: { name: 'Of Bob' },
      message: { outcomes: [{ run: { internals: { __typename: 'RunInternals' } } }] },
      agent: { internals: { __typename: 'AgentInternals' } },
      node: { name: 'Bob' },
      auditLog: { edges: [{}] },
      accessTokens: { edges: [{}] },
      failedJobs: { edges: [] },
    })
    expect(await typeOf(SEND, cookie, { spaceId: secret.id, text: 'hi' })).toBe('NotFoundError')
    const own = await parley.space(ada, [])
    const sent = await ask(SEND, cookie, { spaceId: own.id, text: 'hi' })
    expect(sent.data.sendMessage.sentMessage).toMatchObject({ sender: { id: ada.id }, actingAdmin: null })
  })

  test('a subscription delivers the same to an admin as to the operator', async () => {
    const ada = await adminHuman('Ada')
    const bob = await parley.human('Bob')
    const space = await parley.space(bob, [])
    const headers = await jwtOf(ada)
    const socket = new WebSocket(`${parley.origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws', { headers })
    const events: string[] = []
    socket.on('open', () => socket.send('{"type":"connection_init"}'))
    socket.on('message', (data) => {
      const { type, payload } = JSON.parse(String(data))
      if (type === 'connection_ack') {
        const query = `subscription { spaceMessages(spaceId: "${space.id}") { __typename } }`
        socket.send(JSON.stringify({ id: '1', type: 'subscribe', payload: { query } }))
      }
      if (type === 'next') events.push(payload.data.spaceMessages.__typename)
    })
    await until('the snapshot arrives', () => events.length > 0)
    await parley.send(bob, space.id, 'hello')
    await until('the message arrives', () => events.includes('MessagePosted'))
    socket.close()
  })

  test('a change of role ends the sessions and sockets of the human, but not those of an access token', async () => {
    await adminHuman('Other admin')
    const ada = await adminHuman('Ada')
    const [cookie, jwt, token] = [await sessionOf(ada), await jwtOf(ada), bearer(await parley.tokenOf(ada))]
    const [ofSession, ofJwt, ofToken] = await Promise.all([cookie, jwt, token].map(socketOf))
    await ask(SET_ROLE, await operator(), { id: ada.id, role: 'MEMBER' })
    await until('the socket of the session is closed', () => ofSession?.closed() === 4403)
    await until('the socket of the JWT is closed', () => ofJwt?.closed() === 4403)
    await refused(cookie)
    expect(await mayCreateAgents(jwt)).toBe(false)
    expect(ofToken?.closed()).toBeNull()
    expect(await mayCreateAgents(await sessionOf(ada))).toBe(false)
  })

  test('only admins grant roles, and create humans with a role', async () => {
    const bob = await parley.human('Bob')
    for (const headers of [await sessionOf(bob), bearer(await parley.tokenOf(bob))])
      expect(await typeOf(SET_ROLE, headers, { id: bob.id, role: 'ADMIN' })).toBe('ForbiddenError')
    const create = `mutation { createHuman(input: { name: "Eve", role: ADMIN }) {
      __typename ... on CreateHumanPayload { human { id role } } } }`
    expect(await typeOf(create, await sessionOf(bob))).toBe('ForbiddenError')
    const { data } = await ask(create, await operator())
    expect(data.createHuman.human.role).toBe('ADMIN')
  })

  test('only the operator may revoke the role of the last person who is ADMIN', async () => {
    const { prisma } = parley.app.platform.db
    await prisma.entity.updateMany({ where: { role: 'ADMIN' }, data: { role: 'MEMBER' } })
    const ada = await adminHuman('Ada')
    const cookie = await sessionOf(ada)
    const demote = await ask(SET_ROLE, cookie, { id: ada.id, role: 'MEMBER' })
    expect(demote.data.updateHuman).toMatchObject({
      __typename: 'ForbiddenError',
      message: expect.stringContaining('No other person has the role ADMIN'),
    })
    const erase = 'mutation ($id: ID!) { eraseHuman(input: { id: $id }) { __typename } }'
    expect(await typeOf(erase, cookie, { id: ada.id })).toBe('ForbiddenError')
    expect(await typeOf(SET_ROLE, await operator(), { id: ada.id, role: 'MEMBER' })).toBe('UpdateHumanPayload')
    const bob = await adminHuman('Bob')
    expect(await typeOf(erase, await operator(), { id: bob.id })).toBe('EraseHumanPayload')
    expect(await prisma.entity.findUnique({ where: { id: bob.id } })).toMatchObject({ role: 'MEMBER' })
  })

  test('admin tokens that a person created end with the role of the person', async () => {
    await adminHuman('Other admin')
    const ada = await adminHuman('Ada')
    const create = `mutation { createAccessToken(input: { grant: { admin: {} } }) {
      ... on CreateAccessTokenPayload { secret } } }`
    const { data } = await ask(create, await sessionOf(ada))
    const own = bearer(data.createAccessToken.secret)
    expect(await mayCreateAgents(own)).toBe(true)
    await ask(SET_ROLE, await operator(), { id: ada.id, role: 'MEMBER' })
    await refused(own)
  })

  describe('acting as another human', () => {
    async function acting(admin: Headers, humanId: string): Promise<Headers> {
      const { data } = await ask(ACT_AS, admin, { humanId })
      expect(data.actAs).toMatchObject({ __typename: 'ActAsPayload' })
      const leftMs = Date.parse(data.actAs.expiresAt) - Date.now()
      expect(leftMs).toBeGreaterThan(29 * 60_000)
      expect(leftMs).toBeLessThanOrEqual(30 * 60_000)
      return bearer(data.actAs.secret)
    }

    test('messages carry the admin, who is in the audit log; the person sees the session and can end it', async () => {
      const [ada, bob] = [await adminHuman('Ada'), await parley.human('Bob')]
      const space = await parley.space(bob, [])
      const asBob = await acting(await sessionOf(ada), bob.id)
      const { data } = await ask(SEND, asBob, { spaceId: space.id, text: 'hi' })
      expect(data.sendMessage.sentMessage).toMatchObject({ sender: { id: bob.id }, actingAdmin: { id: ada.id } })
      const { prisma } = parley.app.platform.db
      const where = { actorId: bob.id, action: 'sendMessage', targetId: space.id }
      expect(await prisma.auditEntry.findFirst({ where })).toMatchObject({ detail: { actingAdminId: ada.id } })
      const deed = { actorId: ada.id, action: 'actAs', targetId: bob.id }
      expect(await prisma.auditEntry.count({ where: deed })).toBe(1)

      const cookie = await sessionOf(bob)
      const listed = (await ask(SESSIONS, cookie)).data.viewer.sessions
      const session = listed.find((one: { actingAdmin: object | null }) => one.actingAdmin !== null)
      expect(session).toMatchObject({ device: 'An admin, acting as you', current: false, actingAdmin: { id: ada.id } })
      const socket = await socketOf(asBob)
      expect((await ask(END, cookie, { id: session.id })).data.endSession.endedSessionIds).toEqual([session.id])
      await until('the socket is closed', () => socket.closed() === 4403)
      await refused(asBob)
    })

    test('the operator acts without being a person, and is named as the operator in the audit log and the session', async () => {
      const bob = await parley.human('Bob')
      const space = await parley.space(bob, [])
      const asBob = await acting(await operator(), bob.id)
      const { data } = await ask(SEND, asBob, { spaceId: space.id, text: 'hi' })
      expect(data.sendMessage.sentMessage.actingAdmin).toBeNull()
      const where = { actorId: bob.id, action: 'sendMessage', targetId: space.id }
      const deed = await parley.app.platform.db.prisma.auditEntry.findFirst({ where })
      expect(deed?.detail).toMatchObject({ actingAdminId: null })
      const [session] = (await ask(SESSIONS, asBob)).data.viewer.sessions
      expect(session).toMatchObject({ device: 'The operator, acting as you', current: true, actingAdmin: null })
    })

    test('is available to admins only, and only for humans that exist', async () => {
      const bob = await parley.human('Bob')
      expect(await typeOf(ACT_AS, await sessionOf(bob), { humanId: bob.id })).toBe('ForbiddenError')
      const ada = await adminHuman('Ada')
      expect(await typeOf(ACT_AS, bearer(await parley.tokenOf(ada)), { humanId: bob.id })).toBe('ForbiddenError')
      const agent = await parley.agent('Echo')
      for (const humanId of ['hum_0', agent.id, `${bob.id.slice(0, -1)}z`])
        expect(await typeOf(ACT_AS, await sessionOf(ada), { humanId })).toBe('NotFoundError')
    })

    test('gives no admin rights: the session cannot decide on calls, create tokens or change settings', async () => {
      const [ada, bob] = [await adminHuman('Ada'), await adminHuman('Bob')]
      const asBob = await acting(await sessionOf(ada), bob.id)
      expect(await mayCreateAgents(asBob)).toBe(false)
      expect(await typeOf(ACT_AS, asBob, { humanId: ada.id })).toBe('ForbiddenError')
      const refused = [
        `mutation { decideToolCall(input: { toolCallId: "tcl_1", approve: true }) { __typename } }`,
        `mutation { decideStandingGrant(input: { id: "grt_1", approve: true }) { __typename } }`,
        `mutation { createAccessToken(input: { grant: { humanId: "${bob.id}" } }) { __typename } }`,
        `mutation { createJoinLink(input: { spaceId: "spc_1" }) { __typename } }`,
        `mutation { updateHuman(input: { id: "${bob.id}", name: "Eve" }) { __typename } }`,
        `mutation { endSession(input: {}) { __typename } }`,
      ]
      for (const mutation of refused) expect(await typeOf(mutation, asBob)).toBe('ForbiddenError')
      const page = { origin: parley.origin, 'x-parley-csrf': '1', 'content-type': 'application/json' }
      const body = JSON.stringify({ token: asBob['authorization']?.slice('Bearer '.length) })
      const opened = await fetch(`${parley.origin}/auth/token`, { method: 'POST', body, headers: page })
      expect([opened.status, opened.headers.getSetCookie()]).toEqual([403, []])
    })

    test('ends with the role of the admin, with the session of the admin, and when it expires', async () => {
      await adminHuman('Other admin')
      const [ada, bob] = [await adminHuman('Ada'), await parley.human('Bob')]
      const cookie = await sessionOf(ada)
      const first = await acting(cookie, bob.id)
      const socket = await socketOf(first)
      const [own] = (await ask(SESSIONS, cookie)).data.viewer.sessions
      await ask(END, await operator(), { id: own.id })
      await until('the socket is closed', () => socket.closed() === 4403)
      await refused(first)

      const second = await acting(await jwtOf(ada), bob.id)
      expect((await ask(SESSIONS, second)).status).toBe(200)
      await ask(SET_ROLE, await operator(), { id: ada.id, role: 'MEMBER' })
      await refused(second)

      const third = await acting(await operator(), bob.id)
      const data = { expiresAt: new Date(Date.now() - 1), endsBy: new Date(Date.now() - 1) }
      await parley.app.platform.db.prisma.session.updateMany({ where: { viewerId: bob.id }, data })
      await refused(third)
    })
  })
})
