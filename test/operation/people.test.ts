import { SignJWT } from 'jose'
import { Webhook as Signer } from 'standardwebhooks'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { decidersOn } from '../support/decisions.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { createParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { sayIn } from '../support/space-tools.ts'
import { openStage, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const UPDATE = `mutation ($input: UpdateHumanInput!) {
  updateHuman(input: $input) { __typename ... on UpdateHumanPayload { human { name externalId } } ... on Error { message } }
}`
const ERASE = `mutation ($input: EraseHumanInput!) {
  eraseHuman(input: $input) { __typename ... on EraseHumanPayload { erasedHumanId } ... on Error { message } }
}`
const HUMANS = `query ($search: String) { humans(search: $search) { edges { node { id name externalId } } pageInfo { hasNextPage } } }`
const HUMAN = `query ($id: ID!) { node(id: $id) { ... on Human { id kind name externalId erasedAt } } }`
const TOKENS = `query ($humanId: ID) {
  accessTokens(humanId: $humanId) { edges { node { id human { id } lastUsedAt revokedAt } } }
}`
const WEBHOOKS = `query ($agentId: ID) { webhooks(agentId: $agentId) { edges { node { id urgent lastUsedAt } } } }`
const CREATE_WEBHOOK = `mutation ($input: CreateWebhookInput!) {
  createWebhook(input: $input) { ... on CreateWebhookPayload { secret webhook { id url urgent } } }
}`
const ROTATE = `mutation ($input: RotateWebhookSecretInput!) {
  rotateWebhookSecret(input: $input) { __typename ... on RotateWebhookSecretPayload { secret } ... on Error { message } }
}`
const DELETE_WEBHOOK = `mutation ($id: ID!) { deleteWebhook(input: { id: $id }) { __typename } }`
const INVITE = `mutation ($input: CreateInvitationInput!) {
  createInvitation(input: $input) { __typename ... on CreateInvitationPayload { url expiresAt } ... on Error { message } }
}`
const WHO = `{ viewer { scope human { id } } }`
const WATCH = `subscription ($id: ID!) {
  spaceMessages(spaceId: $id) { __typename ... on SpaceSnapshot { space { messages { edges { node { text } } } } } }
}`
const VIEWER_EVENTS = `subscription { viewerEvents { __typename } }`
const SECRET = 'a-shared-secret-for-jwts-of-32-characters'

describe.each(RULE_STACKS)('people and their sign-in, on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage

  beforeAll(async () => {
    parley = await startTestServer({ stack, settings: { AUTH_JWT_SECRET: SECRET } })
    stage = await openStage(parley)
  })
  afterAll(() => parley?.close())
  beforeEach(() => {
    parley.models.reset()
    parley.models.script(() => [{ text: 'Nothing to do.' }])
  })

  const nodesOf = ({ edges }: Read): Read[] => edges.map(({ node }: Read) => node)

  test('humans change their own names, an admin all their fields, and everybody sees the change', async () => {
    const [husam, eve, mallory] = [await stage.person('Husam'), await stage.person('Eve'), await stage.person('Mal')]
    await stage.space('Team', [husam, eve])
    const update = (who: typeof husam | null, input: object) => stage.ask(who?.client ?? stage.admin, UPDATE, { input })
    expect(await update(husam, { id: husam.id, name: ' Husam K. ' })).toMatchObject({ human: { name: 'Husam K.' } })
    expect(await update(husam, { id: husam.id, externalId: 'h1' })).toMatchObject({ __typename: 'ForbiddenError' })
    expect(await update(eve, { id: husam.id, name: 'X' })).toMatchObject({ __typename: 'ForbiddenError' })
    expect(await update(mallory, { id: husam.id, name: 'X' })).toMatchObject({ __typename: 'NotFoundError' })
    expect(await update(null, { id: husam.id, externalId: `h1-${stack}` })).toMatchObject({
      human: { name: 'Husam K.', externalId: `h1-${stack}` },
    })
    expect(await update(null, { id: eve.id, externalId: `h1-${stack}` })).toMatchObject({ __typename: 'ConflictError' })
    const seen = nodesOf(await stage.ask(eve.client, HUMANS, { search: 'husam' }))
    expect(seen).toEqual([{ id: husam.id, name: 'Husam K.', externalId: null }])
    expect(nodesOf(await stage.ask(husam.client, HUMANS, { search: 'Husam K' }))[0]).toMatchObject({
      externalId: `h1-${stack}`,
    })
    expect(nodesOf(await stage.ask(mallory.client, HUMANS))).toEqual([])
    const all = nodesOf(await stage.ask(stage.admin, HUMANS)).map(({ id }) => id)
    expect(all).toEqual(expect.arrayContaining([husam.id, eve.id, mallory.id]))
  })

  test('a human sets their own time zone by its IANA name, which is public, and whether they share their presence, which is not', async () => {
    const [husam, eve] = [await stage.person('Husam'), await stage.person('Eve')]
    await stage.space('Team', [husam, eve])
    const update = (input: object) =>
      stage.ask(
        husam.client,
        `mutation ($input: UpdateHumanInput!) { updateHuman(input: $input) { __typename
          ... on UpdateHumanPayload { human { timeZone sharePresence } } ... on BadInputError { field } } }`,
        { input: { id: husam.id, ...input } },
      )
    const profile = { timeZone: 'Europe/Berlin', sharePresence: false }
    expect(await update(profile)).toMatchObject({ human: profile })
    const seen = `query ($id: ID!) { node(id: $id) { ... on Human { timeZone sharePresence } } }`
    expect(await stage.ask(eve.client, seen, { id: husam.id })).toEqual({
      timeZone: 'Europe/Berlin',
      sharePresence: null,
    })
    for (const timeZone of ['Berlin', '+02:00', '', 'x'.repeat(10_000)])
      expect(await update({ timeZone })).toEqual({ __typename: 'BadInputError', field: 'input.timeZone' })
    expect(await update({ sharePresence: null })).toMatchObject({ field: 'input.sharePresence' })
    expect(await update({ timeZone: null })).toMatchObject({ human: { timeZone: null, sharePresence: false } })
  })

  /** Returns the whole database, except the records of steps. */
  async function dump(): Promise<string> {
    const { prisma } = parley.app.platform.db
    const tables = await prisma.$queryRaw<{ name: string }[]>`
      SELECT table_schema || '.' || quote_ident(table_name) AS name FROM information_schema.tables
      WHERE table_schema IN ('public', 'pgboss') AND table_type = 'BASE TABLE' AND table_name <> 'Step'`
    const texts = tables.map(async ({ name }) => {
      const rows = await prisma.$queryRawUnsafe<{ row: string }[]>(`SELECT t::text AS row FROM ${name} t`)
      return rows.map(({ row }) => `${name} ${row}`)
    })
    return (await Promise.all(texts)).flat().join('\n')
  }

  test('an erased human is no longer named anywhere, and their messages stay', async () => {
    const name = 'Zebediah "Zeb" Quux'
    const [zeb, eve] = [await stage.person(name), await stage.person('Eve')]
    await stage.ask(stage.admin, UPDATE, { input: { id: zeb.id, externalId: `zebediah-${stack}` } })
    const [ada, bob, mind] = [
      await stage.bot('Ada'),
      await stage.bot('Bob', { toolset: 'ACTIVE_SPACE' }),
      await stage.bot('Mina', { mind: 'PERSISTENT', toolset: 'ACTIVE_SPACE' }),
    ]
    const other = await stage.space('Other', [eve, ada, mind])
    const space = await stage.space('Team', [zeb, eve, ada, bob, mind], { routing: 'BROADCAST' })
    const enters = [{ toolCall: 'enter_space', input: { spaceId: space.id } }]
    parley.models.script(
      forAgent('Ada', steps([sayIn(other.id, 'They asked me.')], [{ toolCall: 'getMyRuns' }], [{ text: '' }])),
    )
    parley.models.script(forAgent('Bob', steps(enters, [{ toolCall: 'get_my_runs' }], [{ text: '' }])))
    parley.models.script(
      forAgent(
        'Mina',
        steps(
          [{ toolCall: 'enter_space', input: { spaceId: other.id } }],
          [{ toolCall: 'send_message', input: { text: 'Noted.' } }],
          enters,
          [{ text: '' }],
        ),
      ),
    )
    await stage.say(zeb, space, 'A word of mine', { mentionedAgentId: ada.id })
    for (const agent of [ada, bob, mind]) await stage.endedRuns(agent, 1)
    const names = ['Zebediah', 'Quux', 'zebediah-']
    const before = await dump()
    for (const part of names) expect(before).toContain(part)
    const bearer = await new SignJWT()
      .setProtectedHeader({ alg: 'HS256' })
      .setSubject(zeb.id)
      .setExpirationTime('1h')
      .sign(new TextEncoder().encode(SECRET))
    const signedIn = createParleyClient({ origin: parley.origin, token: bearer })
    const live = [zeb.client, signedIn].map((client) => client.subscribe(VIEWER_EVENTS, {}))
    await Promise.all(live.map((one) => one.first(() => true)))
    expect(await stage.ask(eve.client, ERASE, { input: { id: zeb.id } })).toMatchObject({
      __typename: 'ForbiddenError',
    })
    expect(await stage.ask(stage.admin, ERASE, { input: { id: zeb.id } })).toEqual({
      __typename: 'EraseHumanPayload',
      erasedHumanId: zeb.id,
    })
    const codes = await Promise.all(live.map(async ({ ended }) => ((await ended) as Read)[0].extensions.code))
    expect(codes).toEqual(['UNAUTHENTICATED', 'UNAUTHENTICATED'])
    const after = await dump()
    for (const part of names) expect(after.split('\n').filter((row) => row.includes(part))).toEqual([])
    for (const client of [zeb.client, signedIn]) expect((await client.ask(WHO)).status).toBe(401)
    await signedIn.close()
    const remains = {
      id: zeb.id,
      kind: 'HUMAN',
      name: 'Erased',
      externalId: null,
      erasedAt: expect.stringMatching(/Z$/),
    }
    for (const client of [stage.admin, eve.client])
      expect(await stage.ask(client, HUMAN, { id: zeb.id })).toEqual(remains)
    const stranger = await stage.person('Stranger')
    expect(await stage.ask(stranger.client, HUMAN, { id: zeb.id })).toBeNull()
    expect((await stage.messagesIn(space))[0]).toMatchObject({ text: 'A word of mine', sender: { name: 'Erased' } })
    expect((await stage.runsOf(ada))[0].triggerSummary).toBe('Erased in "Team": "A word of mine"')
    const members = await parley.app.domain.members.listMany([space.id])
    expect(members.get(space.id)?.map(({ id }) => id)).not.toContain(zeb.id)
    expect(nodesOf(await stage.ask(stage.admin, HUMANS, { search: 'Erased' }))).toEqual([])
  })

  test('after an erasure that includes messages, followers get a snapshot without them', async () => {
    const [zeb, eve] = [await stage.person('Zebulon'), await stage.person('Eve')]
    const [ada, mina] = [await stage.bot('Ada'), await stage.bot('Mina', { mind: 'PERSISTENT' })]
    const [space, chat] = [
      await stage.space('Team', [zeb, eve, ada]),
      await stage.space('Chat', [zeb, mina], { routing: 'BROADCAST' }),
    ]
    await stage.say(zeb, space, 'A word that is to be forgotten')
    await stage.say(zeb, chat, 'And another')
    await stage.endedRuns(ada, 1)
    await stage.endedRuns(mina, 1)
    expect(await dump()).toContain('Zebulon')
    const live = eve.client.subscribe(WATCH, { id: space.id })
    await live.first(() => true)
    await stage.ask(stage.admin, ERASE, { input: { id: zeb.id, messages: true } })
    await live.first(({ spaceMessages: event }: Read) => event.space?.messages.edges[0].node.text === '')
    live.stop()
    expect((await stage.messagesIn(space))[0]).toMatchObject({ parts: [], text: '', sender: { name: 'Erased' } })
    const rows = (await dump()).split('\n')
    expect(rows.filter((row) => row.includes('to be forgotten') || row.includes('Zebulon'))).toEqual([])
  })

  const mentions = async (words: string) => (await dump()).split('\n').filter((row) => row.includes(words))

  test('others with the same name keep it, even with an agent that knows both people', async () => {
    const [one, other] = [await stage.person('Alex Twin'), await stage.person('Alex Twin')]
    const [ada, mina] = [await stage.bot('Ada'), await stage.bot('Mina', { mind: 'PERSISTENT' })]
    const team = await stage.space('Team', [one, mina, ada], { routing: 'BROADCAST' })
    const chat = await stage.space('Chat', [other, mina], { routing: 'BROADCAST' })
    const reads = (space: { id: string }) => [{ toolCall: 'readSpaceMessages', input: { spaceId: space.id, limit: 5 } }]
    for (const [index, [person, space]] of (
      [
        [one, team],
        [other, chat],
      ] as const
    ).entries()) {
      parley.models.script(forAgent('Mina', steps(reads(space), [{ text: 'Read.' }])))
      await stage.say(person, space, `I am number ${index}`)
      await stage.endedRuns(mina, index + 1)
    }
    await stage.endedRuns(ada, 1)
    const others = (rows: string[]) => rows.filter((row) => row.includes('number 1') || row.includes(other.id)).length
    const before = others(await mentions('Alex Twin'))
    expect(before).toBeGreaterThan(3)
    await stage.ask(stage.admin, ERASE, { input: { id: one.id } })
    const after = await mentions('Alex Twin')
    expect(others(after)).toBe(before)
    expect(after.filter((row) => row.includes('number 0') || row.includes(one.id))).toEqual([])
  })

  test('the name is removed even if all spaces of the human have been deleted', async () => {
    const zeb = await stage.person('Zebulon Lost')
    const ada = await stage.bot('Ada')
    const space = await stage.space('Team', [zeb, ada])
    const reads = [{ toolCall: 'readSpaceMessages', input: { spaceId: space.id, limit: 5 } }]
    parley.models.script(forAgent('Ada', steps(reads, [{ text: 'Read.' }])))
    await stage.say(zeb, space, 'Hello')
    await stage.endedRuns(ada, 1)
    await parley.app.domain.deletion.deleteSpace(parley.admin, { id: space.id })
    expect((await mentions('Zebulon Lost')).length).toBeGreaterThan(1)
    await stage.ask(stage.admin, ERASE, { input: { id: zeb.id } })
    expect(await mentions('Zebulon Lost')).toEqual([])
  })

  test('decisions stay without the name, and an erasure with messages removes their reasons everywhere', async () => {
    const [zeb, eve] = [await stage.person('Zebulon Judge'), await stage.person('Eve')]
    const deciders = decidersOn(stage)
    const pay = {
      name: 'pay',
      description: 'Pays.',
      inputSchema: { type: 'object' },
      execution: 'INTERNAL',
      visible: true,
      approval: { approverIds: [zeb.id] },
    }
    const bots = [await stage.bot('Bob', { tools: [pay], toolset: 'ACTIVE_SPACE' })]
    bots.push(await stage.bot('Mina', { tools: [pay], toolset: 'ACTIVE_SPACE', mind: 'PERSISTENT' }))
    for (const bot of bots) {
      const space = await stage.space('Till', [eve, bot], { routing: 'BROADCAST' })
      const enters = [{ toolCall: 'enter_space', input: { spaceId: space.id } }]
      parley.models.script(forAgent(bot.name, steps(enters, [{ toolCall: 'pay', input: {} }], [{ text: 'Well.' }])))
      await stage.say(eve, space, 'Pay')
      const { id } = await deciders.asked(zeb)
      parley.models.script(forAgent(bot.name, ({ step }) => (step > 1 ? undefined : [{ text: 'I see.' }])))
      await deciders.decide(zeb, id, bot.name === 'Mina', { reason: 'because the moon is full' })
      await stage.endedRuns(bot, bot.name === 'Mina' ? 2 : 1)
    }
    expect((await mentions('the moon is full')).length).toBeGreaterThan(3)
    await stage.ask(stage.admin, ERASE, { input: { id: zeb.id, messages: true } })
    expect(await mentions('Zebulon Judge')).toEqual([])
    expect(await mentions('the moon is full')).toEqual([])
  })

  test('rows that others wrote are not rewritten, however often the erasure checks them', async () => {
    const [zeb, eve] = [await stage.person('Zebulon Quoted'), await stage.person('Eve')]
    const mina = await stage.bot('Mina', { mind: 'PERSISTENT' })
    const space = await stage.space('Team', [zeb, eve, mina], { routing: 'BROADCAST' })
    await stage.say(eve, space, 'Zebulon Quoted is late')
    await stage.endedRuns(mina, 1)
    await stage.ask(stage.admin, ERASE, { input: { id: zeb.id } })
    const { prisma } = parley.app.platform.db
    const versions = () => prisma.$queryRaw`
      SELECT xmin::text FROM "Cycle" WHERE "agentId" = ${mina.id} UNION ALL SELECT xmin::text FROM "InboxEvent" WHERE "agentId" = ${mina.id}`
    const before = await versions()
    const formerly = { name: 'Zebulon Quoted', messages: false }
    await prisma.entity.update({ where: { id: zeb.id }, data: { formerly } })
    await parley.app.domain.deletion.sweep()
    expect((await prisma.entity.findUnique({ where: { id: zeb.id } }))?.formerly).toBeNull()
    expect(await versions()).toEqual(before)
    expect((await mentions('Zebulon Quoted')).length).toBeGreaterThan(1)
  })

  test('a worker completes the redaction of a name after a process died', async () => {
    const zeb = await stage.person('Zebulon Half')
    const ada = await stage.bot('Ada')
    const space = await stage.space('Team', [zeb, ada])
    await stage.say(zeb, space, 'Hello')
    await stage.endedRuns(ada, 1)
    const { prisma } = parley.app.platform.db
    const formerly = { name: 'Zebulon Half', messages: false }
    await prisma.entity.update({ where: { id: zeb.id }, data: { name: 'Erased', goneAt: new Date(), formerly } })
    expect(await dump()).toContain('Zebulon Half')
    await parley.app.domain.deletion.sweep()
    // If a worker is already doing this work, the test's own call skips it.
    const left = async () => (await dump()).split('\n').filter((row) => row.includes('Zebulon Half'))
    await until('the name is removed', async () => (await left()).length === 0)
  })

  test('an invitation is valid for one sign-in, by its page or by POST', async () => {
    const husam = await stage.person('Husam')
    const invite = (input: object) => stage.ask(stage.admin, INVITE, { input: { humanId: husam.id, ...input } })
    const { url, expiresAt } = await invite({})
    expect(Date.parse(expiresAt) - Date.now()).toBeGreaterThan(6.9 * 86_400_000)
    const code = new URL(url).pathname.split('/').at(-1)
    const page = await fetch(`${parley.origin}/invitations/${code}`)
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
    const post = (headers = {}) => fetch(`${parley.origin}/invitations/${code}`, { method: 'POST', headers })
    expect((await post({ origin: 'https://elsewhere.example' })).status).toBe(404)
    const [first, second] = await Promise.all([post(), post()])
    expect([first.status, second.status].toSorted()).toEqual([200, 404])
    const { token } = (await (first.status === 200 ? first : second).json()) as { token: string }
    const client = createParleyClient({ origin: parley.origin, token })
    expect((await client.ask<Read>(WHO)).data?.viewer).toEqual({ scope: 'HUMAN', human: { id: husam.id } })
    await client.close()
    expect((await post()).status).toBe(404)
    expect(await invite({ expiresInSeconds: 0 })).toMatchObject({ __typename: 'BadInputError' })
    expect(await stage.ask(husam.client, INVITE, { input: { humanId: husam.id } })).toMatchObject({
      __typename: 'ForbiddenError',
    })
  })

  test('only admins list tokens and webhooks, with their last use', async () => {
    const husam = await stage.person('Husam')
    await stage.ask(husam.client, WHO)
    const [token, ...more] = nodesOf(await stage.ask(stage.admin, TOKENS, { humanId: husam.id }))
    expect([token, more]).toMatchObject([{ human: { id: husam.id }, revokedAt: null }, []])
    expect(Date.now() - Date.parse(token.lastUsedAt)).toBeLessThan(120_000)
    expect(await stage.ask(husam.client, TOKENS)).toBeNull()
    expect(await stage.ask(husam.client, WEBHOOKS)).toBeNull()
  })

  test('a webhook can be urgent, can rotate its secret with a grace period, and can be deleted', async () => {
    const ada = await stage.bot('Ada', { mind: 'PERSISTENT' })
    const made = { input: { agentId: ada.id, serviceName: 'Jira', urgent: true } }
    const { secret, webhook } = await stage.ask(stage.admin, CREATE_WEBHOOK, made)
    let n = 0
    const deliver = async (signedBy: string) => {
      const [id, sentAt] = [`msg_${n++}`, new Date()]
      const headers = {
        'webhook-id': id,
        'webhook-timestamp': String(Math.floor(sentAt.getTime() / 1000)),
        'webhook-signature': new Signer(signedBy).sign(id, sentAt, '{}'),
      }
      const url = parley.origin + new URL(webhook.url).pathname
      return (await fetch(url, { method: 'POST', headers, body: '{}' })).status
    }
    const listed = () => stage.ask(stage.admin, WEBHOOKS, { agentId: ada.id })
    expect(nodesOf(await listed())).toEqual([{ id: webhook.id, urgent: true, lastUsedAt: null }])
    expect(await deliver(secret)).toBe(202)
    expect(nodesOf(await listed())).toMatchObject([{ lastUsedAt: expect.stringMatching(/Z$/) }])
    const events = await parley.app.platform.db.prisma.inboxEvent.findMany({ where: { agentId: ada.id } })
    expect(events.map(({ urgent }) => urgent)).toEqual([true])
    const rotate = (more: object) => stage.ask(stage.admin, ROTATE, { input: { id: webhook.id, ...more } })
    const second = (await rotate({})).secret
    expect([await deliver(secret), await deliver(second)]).toEqual([202, 202])
    const third = (await rotate({ graceSeconds: 0 })).secret
    expect([await deliver(secret), await deliver(second), await deliver(third)]).toEqual([401, 401, 202])
    expect(await rotate({ graceSeconds: -1 })).toMatchObject({ __typename: 'BadInputError' })
    expect(await stage.ask(stage.admin, DELETE_WEBHOOK, { id: webhook.id })).toEqual({
      __typename: 'DeleteWebhookPayload',
    })
    expect([await deliver(third), nodesOf(await listed())]).toEqual([404, []])
    expect(await stage.ask(stage.admin, DELETE_WEBHOOK, { id: webhook.id })).toEqual({ __typename: 'NotFoundError' })
  })
})
