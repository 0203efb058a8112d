import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { type MailServer, startMailServer } from '../support/mail-server.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { openStage, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const CSRF = { 'content-type': 'application/json', 'x-parley-csrf': '1' }
const CREATE = `mutation ($input: CreateHumanInput!) { createHuman(input: $input) {
  __typename ... on CreateHumanPayload { human { id name email } } ... on Error { message code } } }`
const UPDATE = `mutation ($input: UpdateHumanInput!) { updateHuman(input: $input) {
  __typename ... on UpdateHumanPayload { human { id email } } ... on Error { message code } } }`
const EMAIL = `query ($id: ID!) { node(id: $id) { ... on Human { email } } }`
const INVITE = `mutation ($input: InviteInput!) { invite(input: $input) {
  __typename ... on InvitePayload { email expiresAt } ... on Error { message code } } }`
const MEMBERS = `query ($id: ID!) { space(id: $id) { members { id name } } }`
const VIEWER = '{ viewer { scope human { id name email } } }'
const AUDIT = `query ($action: String) { auditLog(action: $action) { edges { node { action targetId detail } } } }`

/** The cookie that a response sets; null if it sets none. */
const cookieOf = (response: Response) =>
  /parley_session=([\w-]+)/.exec(response.headers.get('set-cookie') ?? '')?.[1] ?? null

describe.each(RULE_STACKS)('links in mails, on the %s stack', (stack) => {
  let smtp: MailServer
  let parley: TestServer
  let stage: Stage
  let people = 0

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

  const ask = (operation: string, variables: object, client = stage.admin): Promise<Read> =>
    stage.ask(client, operation, variables)
  const nextAddress = () => `ada.${stack}.${++people}@example.com`

  /** A human with an address. */
  async function ada(email = nextAddress()) {
    const { human } = await ask(CREATE, { input: { name: 'Ada', email } })
    return {
      ...human,
      email,
      client: await parley.clientOf({ scope: 'HUMAN', id: human.id, tokenId: null, expiresAt: null }),
    }
  }
  const post = (path: string, body: object = {}, headers: Record<string, string> = CSRF) =>
    fetch(`${parley.origin}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  const pathOf = (link: string) => new URL(link).pathname
  const request = (email: string) => post('/auth/mail', { email })
  async function linkFor(email: string, count = 1): Promise<string> {
    return pathOf((await smtp.mailTo(email, count)).link)
  }
  async function viewerOf(cookie: string): Promise<Read> {
    const headers = { ...CSRF, origin: parley.origin, cookie: `parley_session=${cookie}` }
    const answer = await fetch(`${parley.origin}/graphql`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ query: VIEWER }),
    })
    return ((await answer.json()) as Read).data?.viewer ?? null
  }
  /** Waits until no job that emails a link is left. */
  const settled = () =>
    until('all links are mailed', async () => {
      const rows = await parley.app.platform.db.prisma.$queryRaw<unknown[]>`
        SELECT 1 FROM job WHERE name = 'send-link' AND state < 'completed'`
      return rows.length === 0
    })

  test('an address is unique without regard to case, and is visible only to admins and the human', async () => {
    const person = await ada()
    const other = await stage.person('Bob')
    expect(await ask(CREATE, { input: { name: 'Eve', email: person.email.toUpperCase() } })).toMatchObject({
      __typename: 'ConflictError',
      message: 'Another human has this email.',
    })
    expect(await ask(UPDATE, { input: { id: other.id, email: ` ${person.email}` } })).toMatchObject({
      code: 'CONFLICT',
    })
    expect(await ask(CREATE, { input: { name: 'Eve', email: 'eve@example.com\r\nBcc: x@y.z' } })).toMatchObject({
      code: 'BAD_INPUT',
    })
    await stage.space('Room', [other, person])
    expect(await ask(EMAIL, { id: person.id })).toEqual({ email: person.email })
    expect(await ask(EMAIL, { id: person.id }, person.client)).toEqual({ email: person.email })
    expect(await ask(EMAIL, { id: person.id }, other.client)).toEqual({ email: null })
  })

  test('signs in once, by a button: opening the link changes nothing', async () => {
    const person = await ada()
    const answer = await request(person.email.toUpperCase())
    expect(answer.status).toBe(202)
    const mail = await smtp.mailTo(person.email)
    expect(mail.headers.get('subject')).toBe('Sign in to Parley')
    const path = pathOf(mail.link)
    expect(path).toMatch(/^\/auth\/mail\/[\w-]{43}$/)
    for (const method of ['GET', 'HEAD', 'GET']) {
      const page = await fetch(parley.origin + path, { method, headers: { accept: 'text/html' } })
      expect([page.status, page.headers.get('referrer-policy'), cookieOf(page)]).toEqual([200, 'no-referrer', null])
    }
    const described = await fetch(parley.origin + path, { headers: { accept: 'application/json' } })
    expect(await described.json()).toMatchObject({ purpose: 'SIGN_IN', name: 'Ada', email: person.email })
    const used = await post(path)
    expect(used.status).toBe(200)
    expect(await viewerOf(cookieOf(used) ?? '')).toMatchObject({ scope: 'HUMAN', human: { id: person.id } })
    const again = await post(path)
    expect([again.status, cookieOf(again)]).toEqual([404, null])
    expect((await fetch(parley.origin + path, { headers: { accept: 'application/json' } })).status).toBe(404)
    const { edges } = await ask(AUDIT, { action: 'signIn' })
    expect(edges[0].node.detail).toEqual({ by: 'mail' })
  })

  test('of two concurrent requests with the same code, one signs in', async () => {
    const person = await ada()
    await request(person.email)
    const path = await linkFor(person.email)
    const statuses = (await Promise.all([post(path), post(path), post(path)])).map(({ status }) => status)
    expect(statuses.toSorted()).toEqual([200, 404, 404])
  })

  test('a newer link leaves an older one valid, and signing in gives the browser a new secret', async () => {
    const person = await ada()
    await request(person.email)
    const first = await linkFor(person.email)
    await settled()
    await request(person.email)
    const second = await linkFor(person.email, 2)
    const [one, other] = [cookieOf(await post(second)), cookieOf(await post(first))]
    expect(one).not.toBe(other)
    expect([await viewerOf(one ?? ''), await viewerOf(other ?? '')]).toMatchObject([
      { scope: 'HUMAN' },
      { scope: 'HUMAN' },
    ])
  })

  test('every address gets the same response, and only known addresses get a mail', async () => {
    const person = await ada()
    const answers = await Promise.all([request(person.email), request(`nobody.${stack}@example.com`)])
    const seen = await Promise.all(
      answers.map(async (one) => [one.status, await one.text(), one.headers.get('set-cookie')]),
    )
    expect(seen[0]).toEqual(seen[1])
    expect(seen[0]?.[0]).toBe(202)
    await smtp.mailTo(person.email)
    await settled()
    expect(smtp.mails.filter(({ to }) => to.includes(`nobody.${stack}@example.com`))).toEqual([])
  })

  test.each(['ada', 'ada@example.com\r\nBcc: eve@example.com', 'a@b.c, d@e.f', '', 7])(
    'an invalid address is refused: %j',
    async (email) => {
      const answer = await post('/auth/mail', { email })
      expect(answer.status).toBe(400)
    },
  )

  test('a stranger cannot cause more than 5 mails an hour to one person', async () => {
    const person = await ada()
    for (let n = 0; n < 8; n += 1) {
      expect((await request(person.email)).status).toBe(202)
      await settled()
    }
    expect(smtp.mails.filter(({ to }) => to.includes(person.email))).toHaveLength(5)
  })

  test('a stranger cannot lock a person out: once no earlier link works, there is a mail', async () => {
    const person = await ada()
    for (let n = 0; n < 6; n += 1) {
      await request(person.email)
      await settled()
    }
    const { prisma } = parley.app.platform.db
    await prisma.mailCode.updateMany({ where: { email: person.email }, data: { expiresAt: new Date(0) } })
    await request(person.email)
    const link = await linkFor(person.email, 6)
    await request(person.email)
    await settled()
    expect(smtp.mails.filter(({ to }) => to.includes(person.email))).toHaveLength(6)
    expect((await post(link)).status).toBe(200)
  })

  test('pages of other sites, and pages without the header, cannot request or use a link', async () => {
    const person = await ada()
    await request(person.email)
    const path = await linkFor(person.email)
    const json = { 'content-type': 'application/json' }
    for (const headers of [
      { ...json, origin: parley.origin },
      { ...CSRF, origin: 'https://evil.example' },
    ]) {
      expect((await post('/auth/mail', { email: person.email }, headers)).status).toBe(403)
      expect((await post(path, {}, headers)).status).toBe(403)
    }
    expect((await post(path, {}, { ...CSRF, origin: parley.origin })).status).toBe(200)
  })

  test('a link does not sign in once the address belongs to somebody else', async () => {
    const person = await ada()
    await request(person.email)
    const path = await linkFor(person.email)
    await ask(UPDATE, { input: { id: person.id, email: nextAddress() } })
    await ada(person.email)
    expect((await post(path)).status).toBe(404)
  })

  test('delays the mails if the mail server refuses them at first', async () => {
    const person = await ada()
    smtp.behave('busy')
    const before = smtp.connections()
    expect((await request(person.email)).status).toBe(202)
    await until('an attempt was made', () => smtp.connections() > before)
    smtp.behave('accepts')
    expect((await post(await linkFor(person.email))).status).toBe(200)
  })

  test('the button creates an invited person, with a name of their choice, who joins the spaces', async () => {
    const host = await stage.person('Hanna')
    const [room, other] = [await stage.space('Room', [host]), await stage.space('Other', [host])]
    const email = `grace.hopper.${stack}@example.com`
    const invited = await ask(INVITE, { input: { email, spaceIds: [room.id, other.id] } }, host.client)
    expect(invited).toEqual({ __typename: 'InvitePayload', email, expiresAt: expect.any(String) })
    const mail = await smtp.mailTo(email)
    expect(mail.headers.get('subject')).toBe('Hanna invites you to Parley')
    const path = pathOf(mail.link)
    const described = await fetch(parley.origin + path, { headers: { accept: 'application/json' } })
    expect(await described.json()).toMatchObject({
      purpose: 'INVITE',
      isNew: true,
      name: expect.stringMatching(/^Grace Hopper/),
      inviter: 'Hanna',
      spaces: expect.arrayContaining(['Room', 'Other']),
    })
    // The inviter leaves one of the spaces in the meantime.
    await parley.app.domain.members.remove(parley.admin, { spaceId: other.id, entityId: host.id })
    const used = await post(path, { name: 'Grace' })
    expect(await used.json()).toEqual({ scope: 'HUMAN', spaceIds: [room.id] })
    expect(await viewerOf(cookieOf(used) ?? '')).toMatchObject({ human: { name: 'Grace', email } })
    expect((await ask(MEMBERS, { id: room.id })).members.map(({ name }: Read) => name)).toEqual(['Hanna', 'Grace'])
    expect((await post(path)).status).toBe(404)
  })

  test('an invitation does not reveal whether the address is known, and a person who is known joins the space with it', async () => {
    const person = await ada()
    const host = await stage.person('Hanna')
    const room = await stage.space('Room', [host])
    const input = { email: person.email, spaceIds: [room.id] }
    expect(await ask(INVITE, { input }, host.client)).toMatchObject({
      __typename: 'InvitePayload',
      email: person.email,
    })
    const used = await post(await linkFor(person.email))
    expect(await viewerOf(cookieOf(used) ?? '')).toMatchObject({ human: { id: person.id, name: 'Ada' } })
    expect((await ask(MEMBERS, { id: room.id })).members).toHaveLength(2)
    const { edges } = await ask(AUDIT, { action: 'acceptInvitation' })
    expect(edges[0].node).toMatchObject({ targetId: person.id, detail: { inviterId: host.id, created: false } })
    const { edges: invitations } = await ask(AUDIT, { action: 'invite' })
    expect(JSON.stringify(invitations)).not.toContain(person.email)
  })

  test('nobody can invite people to a space that they cannot see, or more than 50 people in an hour', async () => {
    const host = await stage.person('Hanna')
    const other = await stage.space('Other', [await stage.person('Bob')])
    const email = nextAddress()
    expect(await ask(INVITE, { input: { email, spaceIds: [other.id] } }, host.client)).toMatchObject({
      code: 'NOT_FOUND',
    })
    expect(await ask(INVITE, { input: { email: 'x', spaceIds: [] } }, host.client)).toMatchObject({ code: 'BAD_INPUT' })
    for (let n = 0; n < 50; n += 1) await ask(INVITE, { input: { email, spaceIds: [] } }, host.client)
    expect(await ask(INVITE, { input: { email, spaceIds: [] } }, host.client)).toMatchObject({ code: 'RATE_LIMITED' })
    await settled()
    expect(smtp.mails.filter(({ to }) => to.includes(email))).toHaveLength(5)
  })

  test('people change their own address by the link that is mailed to the new one, in their own session', async () => {
    const [person, other] = [await ada(), await ada()]
    const email = nextAddress()
    const asked = await ask(UPDATE, { input: { id: person.id, email } }, person.client)
    expect(asked).toMatchObject({ human: { email: person.email } })
    expect(await ask(UPDATE, { input: { id: person.id, email: null } }, person.client)).toMatchObject({
      code: 'FORBIDDEN',
    })
    const path = await linkFor(email)
    const as = async (id: string) => ({
      ...CSRF,
      authorization: `Bearer ${await parley.tokenOf({ scope: 'HUMAN', id, tokenId: null, expiresAt: null })}`,
    })
    for (const headers of [CSRF, await as(other.id)]) expect((await post(path, {}, headers)).status).toBe(403)
    const used = await post(path, {}, await as(person.id))
    expect([used.status, await used.json(), cookieOf(used)]).toEqual([200, { email }, null])
    expect(await ask(EMAIL, { id: person.id })).toEqual({ email })
  })

  test('an address that belongs to another person gets no confirmation mail', async () => {
    const [person, other] = [await ada(), await ada()]
    expect(await ask(UPDATE, { input: { id: person.id, email: other.email } }, person.client)).toMatchObject({
      human: { email: person.email },
    })
    await settled()
    expect(smtp.mails.filter(({ to }) => to.includes(other.email))).toEqual([])
  })

  test('when many addresses are requested at once, five get a mail, and the other requests change nothing', async () => {
    const person = await ada()
    const inputs = Array.from({ length: 8 }, (_, index) => ({
      id: person.id,
      name: `Ada ${index}`,
      email: nextAddress(),
    }))
    const answers: Read[] = await Promise.all(inputs.map((input) => person.client.ask(UPDATE, { input })))
    const refused = answers.flatMap(({ errors }, index) => (errors === undefined ? [] : [index]))
    expect(refused).toHaveLength(3)
    expect(answers[refused[0]!].errors[0]).toMatchObject({ extensions: { code: 'RATE_LIMITED' } })
    await settled()
    for (const [index, { email }] of inputs.entries())
      expect(smtp.mails.filter(({ to }) => to.includes(email))).toHaveLength(refused.includes(index) ? 0 : 1)
    const late = await person.client.ask(UPDATE, { input: { id: person.id, name: 'Eve', email: nextAddress() } })
    expect(late.errors).toHaveLength(1)
    const { human } = await ask(UPDATE, { input: { id: person.id } })
    expect(human.email).toBe(person.email)
    const { name } = await parley.app.platform.db.prisma.entity.findUniqueOrThrow({ where: { id: person.id } })
    expect(inputs.filter((_, index) => !refused.includes(index)).map((input) => input.name)).toContain(name)
  })

  test('erasing a human voids their links and invitations', async () => {
    const [person, host] = [await ada(), await ada()]
    const email = nextAddress()
    await request(person.email)
    await ask(INVITE, { input: { email, spaceIds: [] } }, host.client)
    const paths = [await linkFor(person.email), await linkFor(email)]
    for (const { id } of [person, host])
      await parley.app.domain.deletion.eraseHuman(parley.admin, { id, messages: false })
    for (const path of paths) expect((await post(path)).status).toBe(404)
  })
})

describe('a server without mail', () => {
  test('changes nothing of a human whose new address it cannot confirm', async () => {
    const parley = await startTestServer({ worker: false })
    const bob = await parley.human('Bob')
    const stage = await openStage(parley)
    const input = { id: bob.id, name: 'Robert', timeZone: 'Europe/Berlin', email: 'bob@example.com' }
    expect(await stage.ask(await parley.clientOf(bob), UPDATE, { input })).toMatchObject({ code: 'FORBIDDEN' })
    const human = await parley.app.platform.db.prisma.entity.findUniqueOrThrow({ where: { id: bob.id } })
    expect(human).toMatchObject({ name: 'Bob', timeZone: null, email: null })
    await parley.close()
  })

  test('says what it lacks', async () => {
    const parley = await startTestServer({ worker: false })
    const answer = await fetch(`${parley.origin}/auth/mail`, { method: 'POST', body: '{"email":"ada@example.com"}' })
    expect([answer.status, await answer.text()]).toEqual([404, expect.stringContaining('PARLEY_SMTP_URL')])
    const admin = await parley.clientOf(parley.admin)
    const invited = await admin.ask<Read>(INVITE, { input: { email: 'ada@example.com', spaceIds: [] } })
    expect(invited.data.invite).toMatchObject({
      code: 'FORBIDDEN',
      message: expect.stringContaining('PARLEY_SMTP_URL'),
    })
    const { human } = await parley.room('Iris')
    const client = await parley.clientOf(human)
    const member = await client.ask<Read>(INVITE, { input: { email: 'ada@example.com', spaceIds: [] } })
    expect(member.data.invite).toMatchObject({ message: expect.stringContaining('Only an admin') })
    await parley.close()
  })
})
