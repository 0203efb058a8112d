import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { RULE_STACKS } from '../support/application.ts'
import { type MailServer, startMailServer } from '../support/mail-server.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { openStage, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const LIST = `query ($first: Int, $after: String) { invitations(first: $first, after: $after) {
  edges { node { id email human { name } invitedBy { name } spaces { name } createdAt expiresAt } } pageInfo { hasNextPage endCursor } } }`
const NODE = 'query ($id: ID!) { node(id: $id) { __typename id ... on Invitation { email } } }'
const CREATE = `mutation ($input: CreateInvitationInput!) { createInvitation(input: $input) {
  __typename ... on CreateInvitationPayload { url } ... on Error { code } } }`
const INVITE = `mutation ($input: InviteInput!) { invite(input: $input) { __typename ... on Error { code message } } }`
const REVOKE = `mutation ($id: ID!) { revokeInvitation(input: { id: $id }) {
  __typename ... on RevokeInvitationPayload { revokedId } ... on Error { code } } }`
const AUDIT = `query ($action: String) { auditLog(action: $action) { edges { node { action targetId refused } } } }`

describe.each(RULE_STACKS)('open invitations, on the %s stack', (stack) => {
  let smtp: MailServer
  let parley: TestServer
  let stage: Stage

  beforeAll(async () => {
    smtp = await startMailServer()
    parley = await startTestServer({
      stack,
      settings: { PARLEY_SMTP_URL: smtp.url, PARLEY_MAIL_FROM: 'parley@example.org', PARLEY_INVITE: 'members' },
    })
    stage = await openStage(parley)
  })
  afterAll(async () => {
    await parley?.close()
    await smtp?.close()
  })

  const ask = (operation: string, variables: object = {}, client = stage.admin): Promise<Read> =>
    stage.ask(client, operation, variables)
  /** Returns all open invitations, which can include some of other tests with the same application. */
  const open = async (): Promise<Read[]> => (await ask(LIST, { first: 100 })).edges.map(({ node }: Read): Read => node)
  const openOf = async (whose: string) =>
    (await open()).find(({ email, human }) => email === whose || human?.name === whose)
  const link = async (humanId: string) => new URL((await ask(CREATE, { input: { humanId } })).url).pathname
  const redeem = (path: string, body: object = {}) =>
    fetch(`${parley.origin}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-parley-csrf': '1' },
      body: JSON.stringify(body),
    })
  const addressOf = (name: string) => `${name}.${stack}@example.com`

  test('are listed for admins, newest first, with the person, the inviter, the spaces and the times, until they are used', async () => {
    const [hanna, lena] = [await stage.person('Hanna'), await stage.person(`Lena ${stack}`)]
    const room = await stage.space('Room', [hanna])
    const path = await link(lena.id)
    const email = addressOf('grace')
    await ask(INVITE, { input: { email, spaceIds: [room.id] } }, hanna.client)
    const [byMail, byLink] = await open()
    expect(byLink).toMatchObject({ email: null, human: { name: lena.name }, invitedBy: null, spaces: [] })
    expect(byMail).toMatchObject({ email, human: null, invitedBy: { name: 'Hanna' }, spaces: [{ name: 'Room' }] })
    for (const { createdAt, expiresAt } of [byMail, byLink])
      expect(Date.parse(expiresAt) - Date.parse(createdAt)).toBe(7 * 86_400_000)
    expect(await ask(NODE, { id: byMail.id })).toEqual({ __typename: 'Invitation', id: byMail.id, email })
    expect(JSON.stringify([byMail, byLink])).not.toContain(path.split('/').at(-1))

    expect((await redeem(path)).status).toBe(200)
    expect((await redeem(new URL((await smtp.mailTo(email)).link).pathname, { name: 'Grace' })).status).toBe(200)
    expect([await openOf(lena.name), await openOf(email)]).toEqual([undefined, undefined])
  })

  test('are described to the holder of the link, who is not signed in by that, and open a session without a token', async () => {
    const [hanna, mira] = [await stage.person('Hanna'), await stage.person(`Mira ${stack}`)]
    await parley.app.domain.humans.update(parley.admin, { id: hanna.id, role: 'ADMIN' })
    await stage.space('Room', [hanna, mira])
    const { prisma } = parley.app.platform.db
    const tokens = () => prisma.accessToken.count({ where: { humanId: mira.id, revokedAt: null } })
    const before = await tokens()
    const chief: HumanViewer = { scope: 'HUMAN', id: hanna.id, role: 'ADMIN', tokenId: null, expiresAt: null }
    const made = await parley.app.domain.invitations.create(chief, { humanId: mira.id, expiresInSeconds: 60 })
    const path = `/auth${made.path}`
    const described = () => fetch(parley.origin + path)
    for (let n = 0; n < 2; n += 1) {
      const expected = {
        purpose: 'INVITE',
        email: null,
        isNew: false,
        name: mira.name,
        inviter: 'Hanna',
        spaces: ['Room'],
      }
      expect(await (await described()).json()).toEqual(expected)
    }
    const elsewhere = { origin: 'https://evil.example', 'x-parley-csrf': '1' }
    const without = { origin: parley.origin }
    for (const headers of [elsewhere, without])
      expect((await fetch(parley.origin + path, { method: 'POST', headers })).status).toBe(403)
    const [one, other] = await Promise.all([redeem(path), redeem(path)])
    expect([one.status, other.status].toSorted()).toEqual([200, 404])
    const accepted = one.status === 200 ? one : other
    expect(await accepted.json()).toEqual({ scope: 'HUMAN', spaceIds: [] })
    expect(accepted.headers.get('set-cookie')).toContain('parley_session=')
    expect(await tokens()).toBe(before)
    expect(await prisma.session.count({ where: { viewerId: mira.id } })).toBe(1)
    expect((await described()).status).toBe(404)
    const [entry] = (await ask(AUDIT, { action: 'redeemInvitation' })).edges
    expect(entry.node).toMatchObject({ targetId: mira.id, refused: false })
  })

  test('end when the person accepts another one, except an email that adds the person to a space', async () => {
    const hanna = await stage.person('Hanna')
    const room = await stage.space('Room', [hanna])
    const email = addressOf('nils')
    const person = await parley.app.domain.humans.create(parley.admin, { name: `Nils ${stack}`, email })
    const other = await stage.person(`Olaf ${stack}`)
    const links = [await link(person.id), await link(person.id), await link(person.id)]
    const ofOther = await link(other.id)
    await ask(INVITE, { input: { email, spaceIds: [] } })
    await ask(INVITE, { input: { email, spaceIds: [room.id] } }, hanna.client)
    await smtp.mailTo(email, 2)
    const mails = smtp.mails.filter(({ to }) => to.includes(email))
    const results = await Promise.all([redeem(links[0] ?? ''), redeem(`/auth${links[1]}`)])
    expect(results.map(({ status }) => status).toSorted()).toEqual([200, 404])
    expect((await redeem(links[2] ?? '')).status).toBe(404)
    const left = (await open()).filter(({ human }) => human?.name === person.name)
    expect(left).toMatchObject([{ email, spaces: [{ name: 'Room' }] }])
    expect((await redeem(ofOther)).status).toBe(200)

    const again = await link(person.id)
    const used = await Promise.all(mails.map(({ link: mailed }) => redeem(new URL(mailed).pathname)))
    expect(used.map(({ status }) => status).toSorted()).toEqual([200, 404])
    expect((await redeem(again)).status).toBe(404)
  })

  test('name the person who has the address of an invitation by email', async () => {
    const email = addressOf('Owner')
    await parley.app.domain.humans.create(parley.admin, { name: 'Olga', email })
    await ask(INVITE, { input: { email: email.toLowerCase() } })
    expect(await openOf(email.toLowerCase())).toMatchObject({ human: { name: 'Olga' } })
  })

  test('have pages', async () => {
    const { id } = await stage.person('Paula')
    for (let n = 0; n < 3; n += 1) await link(id)
    const all = await open()
    const first = await ask(LIST, { first: 2 })
    expect(first.edges.map(({ node }: Read) => node)).toEqual(all.slice(0, 2))
    expect(first.pageInfo.hasNextPage).toBe(true)
    const rest = await ask(LIST, { first: 100, after: first.pageInfo.endCursor })
    expect(rest.edges.map(({ node }: Read) => node)).toEqual(all.slice(2))
  })

  test('are revoked: neither the link nor the mail works any longer, and the audit log says so', async () => {
    const revoked = await stage.person(`Rita ${stack}`)
    const path = await link(revoked.id)
    const email = addressOf('rob')
    await ask(INVITE, { input: { email } })
    const mailed = new URL((await smtp.mailTo(email)).link).pathname
    for (const whose of [revoked.name, email]) {
      const { id } = await openOf(whose)
      expect(await ask(REVOKE, { id })).toEqual({ __typename: 'RevokeInvitationPayload', revokedId: id })
      expect(await ask(REVOKE, { id })).toMatchObject({ code: 'NOT_FOUND' })
      expect(await ask(NODE, { id })).toBeNull()
      expect((await ask(AUDIT, { action: 'revokeInvitation' })).edges[0].node).toMatchObject({ targetId: id })
    }
    expect((await redeem(path)).status).toBe(404)
    expect((await redeem(mailed, { name: 'Rob' })).status).toBe(404)
  })

  test('send no mail if they are revoked before the mail server accepts it', async () => {
    smtp.behave('busy')
    const before = smtp.connections()
    const email = addressOf('late')
    await ask(INVITE, { input: { email } })
    await until('an attempt was made', () => smtp.connections() > before)
    const { id } = await openOf(email)
    await ask(REVOKE, { id })
    smtp.behave('accepts')
    await until('the job is gone', async () => {
      const jobs = await parley.app.platform.db.prisma.$queryRaw<unknown[]>`
        SELECT 1 FROM job WHERE name = 'send-link' AND group_id = ${id} AND state < 'completed'`
      return jobs.length === 0
    })
    expect(smtp.mails.filter(({ to }) => to.includes(email))).toEqual([])
  })

  test('are neither listed nor revocable for people who are not admins', async () => {
    const { client } = await stage.person('Mallory')
    await link((await stage.person('Nora')).id)
    const [{ id }] = await open()
    expect(await ask(LIST, {}, client)).toBeNull()
    expect(await ask(NODE, { id }, client)).toBeNull()
    expect(await ask(REVOKE, { id }, client)).toMatchObject({ code: 'FORBIDDEN' })
    expect((await open())[0]?.id).toBe(id)
  })

  test('are not listed after they have expired', async () => {
    const tess = await stage.person(`Tess ${stack}`)
    await link(tess.id)
    const { id } = await openOf(tess.name)
    await parley.app.platform.db.prisma.invitation.update({ where: { id }, data: { expiresAt: new Date(0) } })
    expect(await openOf(tess.name)).toBeUndefined()
    expect(await ask(NODE, { id })).toBeNull()
  })

  test.each(['loses the role', 'is removed'])(
    'invitations of other people end when the admin who got the links %s',
    async (how) => {
      const { domain } = parley.app
      const { id } = await domain.humans.create(parley.admin, { name: 'Chief', role: 'ADMIN' })
      const chief: HumanViewer = { scope: 'HUMAN', id, role: 'ADMIN', tokenId: null, expiresAt: null }
      const other = await stage.person('Vic')
      const create = async (humanId: string) =>
        (await domain.invitations.create(chief, { humanId, expiresInSeconds: 60 })).path
      const [ofOther, own] = [await create(other.id), await create(id)]
      if (how === 'is removed') await domain.deletion.eraseHuman(parley.admin, { id, messages: false })
      else await domain.humans.update(parley.admin, { id, role: 'MEMBER' })
      expect((await redeem(ofOther)).status).toBe(404)
      expect((await redeem(own)).status).toBe(how === 'is removed' ? 404 : 200)
    },
  )
})

test('an invitation is not used up by a page on which the browser would drop the cookie of the session', async () => {
  const parley = await startTestServer({
    worker: false,
    isFresh: true,
    settings: { PARLEY_PUBLIC_URL: 'https://chat.example.com' },
  })
  try {
    const human = await parley.human('Ada')
    const invited = { humanId: human.id, expiresInSeconds: 60 }
    const { path } = await parley.app.domain.invitations.create(parley.admin, invited)
    const post = (origin: string) =>
      fetch(`${parley.origin}/auth${path}`, { method: 'POST', headers: { origin, 'x-parley-csrf': '1' } })
    const refused = await post(parley.origin)
    expect([refused.status, refused.headers.get('set-cookie')]).toEqual([409, null])
    expect(await refused.json()).toEqual({ error: expect.stringContaining('https://chat.example.com') })
    const accepted = await post('https://chat.example.com')
    expect([accepted.status, accepted.headers.get('set-cookie')]).toEqual([200, expect.stringContaining('Secure')])
  } finally {
    await parley.close()
  }
})

test('links are not used up, and nobody is created, if the session cannot be stored', async () => {
  const smtp = await startMailServer()
  const parley = await startTestServer({
    isFresh: true,
    settings: { PARLEY_SMTP_URL: smtp.url, PARLEY_MAIL_FROM: 'parley@example.org' },
  })
  try {
    const { platform, domain } = parley.app
    const { prisma } = platform.db
    const [ada, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    await prisma.entity.update({ where: { id: bob.id }, data: { email: 'bob@example.com' } })
    const { path } = await domain.invitations.create(parley.admin, { humanId: ada.id, expiresInSeconds: 60 })
    await domain.inviting.invite(parley.admin, { email: 'new@example.com', spaceIds: [] } as never)
    const post = (to: string, body: object = {}) =>
      fetch(parley.origin + to, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-parley-csrf': '1' },
        body: JSON.stringify(body),
      })
    await post('/auth/mail', { email: 'bob@example.com' })
    const mailed = async (email: string) => new URL((await smtp.mailTo(email)).link).pathname
    const links = [`/auth${path}`, await mailed('bob@example.com'), await mailed('new@example.com')]
    const people = await prisma.entity.count()

    await prisma.$executeRawUnsafe(
      `CREATE FUNCTION refuse_session() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no room'; END $$`,
    )
    await prisma.$executeRawUnsafe(
      'CREATE TRIGGER refuse_session BEFORE INSERT ON "Session" FOR EACH ROW EXECUTE FUNCTION refuse_session()',
    )
    for (const link of links) expect((await post(link)).status).toBe(500)
    expect(await prisma.entity.count()).toBe(people)
    await prisma.$executeRawUnsafe('DROP TRIGGER refuse_session ON "Session"')
    for (const link of links) {
      const accepted = await post(link)
      expect([accepted.status, accepted.headers.get('set-cookie')]).toEqual([
        200,
        expect.stringContaining('parley_session='),
      ])
    }
    expect(await prisma.entity.count()).toBe(people + 1)
  } finally {
    await parley.close()
    await smtp.close()
  }
})
