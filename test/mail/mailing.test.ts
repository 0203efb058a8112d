import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { enqueueMail, type NewMail } from '../../src/stores/mail-store.ts'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { freePort } from '../support/free-port.ts'
import { type MailServer, startMailServer } from '../support/mail-server.ts'
import { until } from '../support/until.ts'

describe.each(RULE_STACKS)('mails, on the %s stack', (stack) => {
  let smtp: MailServer
  let parley: TestApplication
  let person: HumanViewer & { email: string }
  let people = 0

  beforeAll(async () => {
    smtp = await startMailServer()
    parley = await startApplication({
      stack,
      settings: { PARLEY_SMTP_URL: smtp.url, PARLEY_MAIL_FROM: 'Parley <parley@example.org>' },
    })
  })
  afterAll(async () => {
    await parley?.close()
    await smtp?.close()
  })
  beforeEach(async () => {
    people += 1
    const email = `Person${people}@example.com`
    const { id } = await parley.app.domain.humans.create(parley.admin, { name: 'Ada', email })
    person = { scope: 'HUMAN', id, tokenId: null, expiresAt: null, email }
  })
  afterEach(() => smtp.behave('accepts'))

  function enqueue(mail: Partial<NewMail> = {}): Promise<boolean> {
    const { platform } = parley.app
    const whole = { key: `test:${person.id}`, humanId: person.id, subject: 'Hello', text: 'One.\n\nTwo.', ...mail }
    return platform.db.transaction((tx) => enqueueMail(tx, platform, whole))
  }
  const waiting = async () =>
    (
      await parley.app.platform.db.prisma.$queryRaw<unknown[]>`
      SELECT 1 FROM job WHERE name = 'send-mail' AND group_id = ${person.id} AND state < 'completed'`
    ).length
  const failed = async () => {
    const { items } = await parley.app.domain.failedJobs.page({ size: 100, fromEnd: false, after: null, before: null })
    return items.filter(({ subjectId }) => subjectId === person.id)
  }

  test('reach the human’s address as text and HTML, with a link to this server', async () => {
    await enqueue({
      subject: 'News\r\nBcc: eve@example.com',
      text: 'Ada & <b>Bob</b>.\n\nTwo.',
      link: { path: '/waiting', label: 'Open' },
    })
    const mail = await smtp.mailTo(person.email)
    expect(mail.headers.get('from')).toBe('Parley <parley@example.org>')
    expect(mail.headers.get('to')).toBe(person.email)
    expect(mail.headers.get('subject')).toBe('News Bcc: eve@example.com')
    expect(mail.headers.get('bcc')).toBeUndefined()
    expect(mail.headers.get('auto-submitted')).toBe('auto-generated')
    expect(mail.text).toContain('Ada & <b>Bob</b>.\n\nTwo.\n\nOpen:\nhttp://')
    expect(mail.link).toMatch(/\/waiting$/)
    expect(mail.raw).toContain('&lt;b&gt;Bob')
  })

  test('are sent once for each key, and only if their transaction commits', async () => {
    expect(await enqueue()).toBe(true)
    expect(await enqueue()).toBe(false)
    await smtp.mailTo(person.email)
    await until('the job is done', async () => (await waiting()) === 0)
    expect(await enqueue()).toBe(false)
    const { platform } = parley.app
    const broken = platform.db.transaction(async (tx) => {
      await enqueueMail(tx, platform, { key: `other:${person.id}`, humanId: person.id, subject: 'x', text: 'x' })
      throw new Error('the cause failed')
    })
    await expect(broken).rejects.toThrow('the cause failed')
    expect(await enqueue({ key: `other:${person.id}`, subject: 'Later' })).toBe(true)
    expect((await smtp.mailTo(person.email, 2)).headers.get('subject')).toBe('Later')
  })

  test('wait while the mail server is busy, and are sent later', async () => {
    smtp.behave('busy')
    const before = smtp.connections()
    await enqueue()
    await until('two attempts were made', () => smtp.connections() >= before + 2)
    expect(await waiting()).toBe(1)
    smtp.behave('accepts')
    await smtp.mailTo(person.email)
    expect(smtp.mails.filter(({ to }) => to.includes(person.email))).toHaveLength(1)
  })

  test('become a failed job at once if the server refuses the recipient, and are sent when an admin retries', async () => {
    smtp.behave('refuses')
    await enqueue()
    const [job] = await until('the job has failed', async () => {
      const jobs = await failed()
      return jobs.length > 0 && jobs
    })
    expect(job).toMatchObject({ name: 'send-mail', attempts: 1, error: expect.stringContaining('5.1.1 No such user') })
    smtp.behave('accepts')
    await parley.app.domain.failedJobs.retry(parley.admin, { id: job?.id ?? '' })
    await smtp.mailTo(person.email)
  })

  test('are not sent again if the connection broke before the server replied', async () => {
    smtp.behave('breaks')
    await enqueue()
    const [job] = await until('the job has failed', async () => {
      const jobs = await failed()
      return jobs.length > 0 && jobs
    })
    expect(job?.error).toMatch(/may have been delivered/)
    expect(smtp.mails.filter(({ to }) => to.includes(person.email))).toHaveLength(1)
    smtp.behave('accepts')
    await parley.app.domain.failedJobs.retry(parley.admin, { id: job?.id ?? '' })
    await smtp.mailTo(person.email, 2)
  })

  test('go to nobody who was erased or has no address', async () => {
    smtp.behave('busy')
    await enqueue()
    await until('an attempt was made', async () => (await waiting()) === 1)
    await parley.app.domain.deletion.eraseHuman(parley.admin, { id: person.id, messages: false })
    smtp.behave('accepts')
    await until('the job is gone', async () => (await waiting()) === 0)
    expect(smtp.mails.filter(({ to }) => to.includes(person.email))).toHaveLength(0)
  })
})

describe('on a process without a mail server', () => {
  test('enqueues no mails', async () => {
    const parley = await startApplication({ worker: false })
    const { platform } = parley.app
    const { id } = await parley.app.domain.humans.create(parley.admin, { name: 'Ada', email: 'nobody@example.com' })
    const mail = { key: 'k', humanId: id, subject: 'x', text: 'x' }
    expect(await platform.db.transaction((tx) => enqueueMail(tx, platform, mail))).toBe(false)
    await parley.close()
  })
})

describe('a mail server that is down', () => {
  test('delays a mail: the job stays, with the reason', async () => {
    const port = await freePort()
    const parley = await startApplication({ settings: { PARLEY_SMTP_URL: `smtp://127.0.0.1:${port}` }, isFresh: true })
    const { platform, domain } = parley.app
    const { id } = await domain.humans.create(parley.admin, { name: 'Ada', email: 'ada@example.com' })
    await platform.db.transaction((tx) => enqueueMail(tx, platform, { key: 'k', humanId: id, subject: 'x', text: 'x' }))
    await until('an attempt has failed', async () => {
      const [job] = await platform.db.prisma.$queryRaw<{ output: { message?: string } | null }[]>`
        SELECT output FROM job WHERE name = 'send-mail' AND state = 'retry'`
      return job?.output?.message?.includes('ECONNREFUSED')
    })
    await parley.close()
  })
})
