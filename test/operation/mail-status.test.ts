import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { freePort } from '../support/free-port.ts'
import { type MailServer, startMailServer } from '../support/mail-server.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const STATUS = '{ mailStatus { configured lastSentAt lastFailedAt lastError retrying failed } }'
const INVITE = 'mutation ($email: String!) { invite(input: { email: $email }) { __typename } }'

interface Status {
  configured: boolean
  lastSentAt: string | null
  lastFailedAt: string | null
  lastError: string | null
  retrying: number
  failed: number
}

async function statusOf(client: ParleyClient): Promise<Status | null> {
  const { data, errors } = await client.ask<{ mailStatus: Status | null }>(STATUS)
  expect(errors).toBeUndefined()
  return data?.mailStatus ?? null
}
const statusWhen = (client: ParleyClient, what: string, holds: (status: Status) => boolean) =>
  until(what, async () => {
    const status = await statusOf(client)
    return status !== null && holds(status) && status
  })

describe.each(RULE_STACKS)('the status of emails, on the %s stack', (stack) => {
  let smtp: MailServer
  let parley: TestServer
  let admin: ParleyClient

  beforeAll(async () => {
    smtp = await startMailServer()
    const settings = { PARLEY_SMTP_URL: smtp.url, PARLEY_MAIL_FROM: 'parley@example.org' }
    parley = await startTestServer({ stack, isFresh: true, settings })
    admin = await parley.clientOf(parley.admin)
  })
  afterAll(async () => {
    await parley?.close()
    await smtp?.close()
  })

  const invite = (email: string) => admin.ask(INVITE, { email })

  test('is empty before the first email', async () => {
    const nothing = { lastSentAt: null, lastFailedAt: null, lastError: null, retrying: 0, failed: 0 }
    expect(await statusOf(admin)).toEqual({ configured: true, ...nothing })
  })

  test('has the time and the reason of the last failure while emails are retried, and neither once they are sent', async () => {
    smtp.behave('busy')
    const before = Date.now()
    for (const name of ['ada', 'bob']) await invite(`${name}@example.com`)
    const failing = await statusWhen(admin, 'two emails are attempted again', ({ retrying }) => retrying === 2)
    expect(failing).toMatchObject({
      lastSentAt: null,
      failed: 0,
      lastError: expect.stringContaining('4.7.1 Try again later'),
    })
    // The times of jobs come from the clock of the database.
    expect(Math.abs(Date.parse(failing.lastFailedAt ?? '') - before)).toBeLessThan(60_000)
    smtp.behave('accepts')
    const sent = await statusWhen(admin, 'both are sent', ({ retrying }) => retrying === 0)
    expect(sent).toEqual({
      configured: true,
      lastSentAt: expect.any(String),
      lastFailedAt: null,
      lastError: null,
      retrying: 0,
      failed: 0,
    })
  })

  test('counts emails that could not be sent, until an admin retries or deletes them', async () => {
    smtp.behave('refuses')
    await invite('nobody@example.com')
    const { lastSentAt, lastFailedAt, lastError } = await statusWhen(
      admin,
      'it is given up',
      ({ failed }) => failed === 1,
    )
    expect(lastError).toContain('5.1.1 No such user')
    expect(Date.parse(lastFailedAt ?? '')).toBeGreaterThan(Date.parse(lastSentAt ?? ''))
    smtp.behave('accepts')
    const { items } = await parley.app.domain.failedJobs.page({ size: 1, fromEnd: false, after: null, before: null })
    await parley.app.domain.failedJobs.retry(parley.admin, { id: items[0]?.id ?? '' })
    await smtp.mailTo('nobody@example.com')
    expect(await statusWhen(admin, 'it is sent', ({ failed }) => failed === 0)).toMatchObject({ lastFailedAt: null })
  })

  test('is visible to admins only', async () => {
    expect(await statusOf(await parley.clientOf(await parley.human('Ada')))).toBeNull()
  })
})

test('a mail server that does not answer is the reason', async () => {
  const settings = { PARLEY_SMTP_URL: `smtp://127.0.0.1:${await freePort()}`, PARLEY_MAIL_FROM: 'parley@example.org' }
  const parley = await startTestServer({ isFresh: true, settings })
  const admin = await parley.clientOf(parley.admin)
  await admin.ask(INVITE, { email: 'ada@example.com' })
  const { lastError } = await statusWhen(admin, 'the email is attempted again', ({ retrying }) => retrying === 1)
  expect(lastError).toMatch(/The mail server did not accept the email: .*ECONNREFUSED/)
  await parley.close()
})

test('a server without a mail server says so', async () => {
  const parley = await startTestServer({ worker: false })
  expect(await statusOf(await parley.clientOf(parley.admin))).toMatchObject({ configured: false })
  await parley.close()
})
