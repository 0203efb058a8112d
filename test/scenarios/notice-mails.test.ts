import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { newId } from '../../src/lib/ids.ts'
import { insertNotices, lockDueNotices } from '../../src/stores/notice-store.ts'
import { RULE_STACKS, STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { type MailServer, startMailServer } from '../support/mail-server.ts'
import { startPushService } from '../support/push-service.ts'
import { until } from '../support/until.ts'

const MAIL = { PARLEY_MAIL_FROM: 'Parley <parley@example.org>', PARLEY_PUBLIC_URL: 'https://example.com/parley' }

describe.each(RULE_STACKS)('mails with notices, on the %s stack', (stack) => {
  let smtp: MailServer
  let parley: TestApplication
  let people = 0
  beforeAll(async () => {
    smtp = await startMailServer()
    parley = await startApplication({ stack, settings: { ...MAIL, PARLEY_SMTP_URL: smtp.url } })
  })
  afterAll(async () => {
    await parley?.close()
    await smtp?.close()
  })

  const person = async (name: string): Promise<HumanViewer & { email: string }> => {
    people += 1
    const email = `person${people}@example.com`
    const { id } = await parley.app.domain.humans.create(parley.admin, { name, email })
    return { scope: 'HUMAN', id, tokenId: null, expiresAt: null, email }
  }
  const { prisma } = { prisma: () => parley.app.platform.db.prisma }
  const room = async (memberIds: string[]) =>
    parley.app.domain.spaces.create(parley.admin, { name: 'Takeover of Acme', routing: 'BROADCAST', memberIds })
  const settle = () =>
    until('no mail is waiting', async () => {
      const [row] = await prisma().$queryRaw<{ count: number }[]>`
        SELECT count(*)::int AS count FROM job
        WHERE name IN ('notify', 'mail-notices', 'send-mail') AND state < 'completed' AND start_after <= now()`
      return row?.count === 0
    })
  /** Skips the time after which open notices are emailed. */
  const later = async ({ id }: HumanViewer) => {
    await until('the notices are written', async () => (await prisma().notice.count({ where: { humanId: id } })) > 0)
    await prisma().$executeRaw`UPDATE "Notice" SET "mailAt" = now() WHERE "humanId" = ${id} AND "mailAt" IS NOT NULL`
    await prisma().$executeRaw`UPDATE job SET start_after = now() WHERE name = 'mail-notices' AND group_id = ${id}`
  }

  test('one mail lists all open notices, with a link, and without texts and names', async () => {
    const [alice, bob] = [await person('Alice'), await person('Bob')]
    expect(await parley.app.domain.notifications.settings(bob)).toEqual({
      push: true,
      mail: true,
      notifyAfterMinutes: 15,
    })
    const space = await room([alice.id, bob.id])
    const send = (text: string) =>
      parley.app.domain.sending.send(alice, { spaceId: space.id, text, mentionedIds: [bob.id] })
    const { message } = await send('The merger is called Falcon')
    await later(bob)
    const mail = await smtp.mailTo(bob.email)
    expect(mail.headers.get('subject')).toBe('Somebody mentioned you')
    expect(mail.link).toBe(`https://example.com/parley/spaces/${space.id}#${message.id}`)
    await settle()
    await send('Falcon again')
    await send('And again')
    await until(
      'both are written',
      async () => (await prisma().notice.count({ where: { humanId: bob.id, mailAt: { not: null } } })) === 2,
    )
    await later(bob)
    const both = await smtp.mailTo(bob.email, 2)
    expect(both.text).toContain('2 messages mention you.')
    await settle()
    const raw = smtp.mails.filter(({ to }) => to.includes(bob.email)).map((one) => one.raw)
    expect(raw).toHaveLength(2)
    for (const canary of ['Falcon', 'Acme', 'Alice']) expect(raw.join()).not.toContain(canary)
  })

  test('no mail is sent for a message that was read, or to a person who has left or wants no mail', async () => {
    const [alice, reader, gone, silent] = [await person('A'), await person('R'), await person('G'), await person('S')]
    const space = await room([alice, reader, gone, silent].map(({ id }) => id))
    await parley.app.domain.notifications.setSettings(silent, { mail: false })
    const mentionedIds = [reader.id, gone.id, silent.id]
    const { message } = await parley.app.domain.sending.send(alice, { spaceId: space.id, text: 'Hi', mentionedIds })
    for (const one of [reader, gone, silent])
      await until('a notice is written', () => prisma().notice.findFirst({ where: { humanId: one.id } }))
    await parley.app.domain.reading.markRead(reader, { spaceId: space.id, messageId: message.id })
    await parley.app.domain.members.remove(gone, { spaceId: space.id, entityId: gone.id })
    for (const one of [reader, gone, silent]) await later(one)
    await settle()
    const addresses = new Set(smtp.mails.flatMap(({ to }) => to))
    for (const { email } of [reader, gone, silent]) expect(addresses.has(email)).toBe(false)
  })

  test('a mention in a thread stays open until the thread is read, even if the rest of the space was', async () => {
    const [alice, outside, inside] = [await person('A'), await person('O'), await person('I')]
    const { id: spaceId } = await room([alice, outside, inside].map(({ id }) => id))
    const { sending, reading } = parley.app.domain
    const { message: root } = await sending.send(alice, { spaceId, text: 'Root' })
    const mentionedIds = [outside.id, inside.id]
    const { message } = await sending.send(alice, { spaceId, text: 'Hi', replyToId: root.id, mentionedIds })
    const { message: last } = await sending.send(alice, { spaceId, text: 'Last' })
    await reading.markRead(outside, { spaceId, messageId: last.id })
    await reading.markRead(inside, { spaceId, messageId: message.id })
    for (const one of [outside, inside]) await later(one)
    expect((await smtp.mailTo(outside.email)).link).toBe(`https://example.com/parley/spaces/${spaceId}#${message.id}`)
    await settle()
    expect(smtp.mails.some(({ to }) => to.includes(inside.email))).toBe(false)
  })

  test('a hundred mentions that wait to be mailed do not suppress the mail about a decision', async () => {
    const [alice, bob] = [await person('Alice'), await person('Bob')]
    const space = await room([alice.id, bob.id])
    const subjects = Array.from({ length: 100 }, (_, n) => `msg_${bob.id}_${n}`)
    await prisma().notice.createMany({
      data: subjects.map((subjectId) => ({
        id: newId('ntc'),
        humanId: bob.id,
        kind: 'MENTION',
        subjectId,
        spaceId: space.id,
        messageId: subjectId,
        createdAt: new Date(Date.now() - 120_000),
        mailAt: new Date(Date.now() + 900_000),
      })),
    })
    const notice = (kind: 'MENTION' | 'DECISION_WAITING') => ({
      id: newId('ntc'),
      humanId: bob.id,
      kind,
      subjectId: `${kind} of ${bob.id}`,
      spaceId: space.id,
      messageId: null,
      toolCallId: null,
      runId: null,
      mailAfterMinutes: 0,
    })
    const { db } = parley.app.platform
    const written = await db.transaction((tx) => insertNotices(tx, [notice('MENTION'), notice('DECISION_WAITING')]))
    expect(Object.fromEntries(written.map(({ kind, mailAt }) => [kind, mailAt !== null]))).toEqual({
      MENTION: false,
      DECISION_WAITING: true,
    })
    await prisma()
      .$executeRaw`UPDATE "Notice" SET "mailAt" = now() WHERE "humanId" = ${bob.id} AND "mailAt" IS NOT NULL`
    const due = await db.transaction((tx) => lockDueNotices(tx, bob.id))
    expect([due.length, due[0]?.kind]).toEqual([100, 'DECISION_WAITING'])
    await prisma().notice.deleteMany({ where: { humanId: bob.id } })
  })

  test('ten mails an hour are sent, and then the remaining notices in one', async () => {
    const [alice, bob] = [await person('Alice'), await person('Bob')]
    const space = await room([alice.id, bob.id])
    await parley.app.domain.notifications.setSettings(bob, { notifyAfterMinutes: 0 })
    const count = () => smtp.mails.filter(({ to }) => to.includes(bob.email)).length
    for (let n = 1; n <= 12; n += 1) {
      await parley.app.domain.sending.send(alice, { spaceId: space.id, text: `${n}`, mentionedIds: [bob.id] })
      if (n <= 10) await until(`mail ${n} is sent`, () => count() === n)
      await settle()
    }
    expect(count()).toBe(10)
    const waiting = await prisma().notice.findMany({ where: { humanId: bob.id, mailAt: { not: null } } })
    expect(waiting.map(({ mailAt }) => (mailAt?.getTime() ?? 0) > Date.now())).toEqual([true, true])
  }, 60_000)
})

test.skipIf(!STACKS.includes('postgres'))(
  'two processes share one key pair, and send each push once',
  async () => {
    const push = await startPushService()
    const one = await startApplication({ stack: 'postgres', isFresh: true, push: push.network })
    try {
      await one.app.platform.db.prisma.pushKeys.deleteMany({})
      const others = await Promise.all(
        [1, 2].map(() => startApplication({ stack: 'postgres', beside: one, push: push.network })),
      )
      const [key, other] = others.map(({ app }) => app.domain.notifications.pushPublicKey)
      expect(key).not.toBe(null)
      expect(other).toBe(key)
      const [stored] = await one.app.platform.db.prisma.pushKeys.findMany()
      expect(stored).toMatchObject({ publicKey: key, privateSealed: expect.stringMatching(/^v1\./) })
      const [alice, bob] = [await one.human('Alice'), await one.human('Bob')]
      const memberIds = [alice.id, bob.id]
      const space = await one.app.domain.spaces.create(one.admin, { name: 'Room', routing: 'BROADCAST', memberIds })
      const phone = push.browser()
      await one.app.domain.notifications.addPushSubscription(bob, phone.input)
      for (let n = 0; n < 20; n += 1)
        await one.app.domain.sending.send(alice, { spaceId: space.id, text: `${n}`, mentionedIds: [bob.id] })
      await until('all pushes are sent', () => phone.pushes().length >= 20)
      expect(new Set(phone.pushes().map(({ messageId }) => messageId)).size).toBe(20)
      expect(phone.pushes()).toHaveLength(20)
      for (const { close } of others) await close()
    } finally {
      await one.close()
      await push.close()
    }
  },
  60_000,
)
