import { readdirSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isNightly } from '../support/effort.ts'
import { type MailServer, startMailServer } from '../support/mail-server.ts'
import { hasPostgres } from '../support/postgres.ts'
import { openWorld, performCrash, performWhole, shareSettings, type World } from './crashes.ts'
import { COVERED_ELSEWHERE, PLAYS } from './flow-plays.ts'

/**
 * Kills the process of each request between the commit and the publication. With EFFORT=nightly, the process also dies after
 * each statement.
 */
const USUAL_PLAYS = [
  'a member is added',
  'a member with waiting events is removed',
  'an agent with a queued run is deleted',
  'a space is renamed',
  'a message is edited and answered again',
  'a person reacts',
  'a person joins by a link',
  'a failed run is retried',
  'a call is claimed',
  'a call is approved',
  'a call is denied',
  'a result is submitted',
  'a person changes their name',
]

const isCommit = ({ text }: { text: string }) => /^COMMIT/i.test(text)

test('each flow has a request whose process dies', () => {
  const flows = readdirSync(new URL('../../src/flows', import.meta.url))
  const covered = new Set([...PLAYS.flatMap(({ files }) => files), ...Object.keys(COVERED_ELSEWHERE)])
  expect([...covered].sort()).toEqual(flows.sort())
})

describe.skipIf(!hasPostgres)('a process that dies after a statement loses, repeats and blocks nothing when', () => {
  let world: World
  let smtp: MailServer
  beforeAll(async () => {
    smtp = await startMailServer()
    const settings = {
      PARLEY_SMTP_URL: smtp.url,
      PARLEY_MAIL_FROM: 'parley@example.org',
      PARLEY_INVITE: 'members',
    }
    world = await openWorld(settings)
    shareSettings(world, settings)
  })
  afterAll(async () => {
    await world?.close()
    await smtp?.close()
  })

  const plays = isNightly ? PLAYS : PLAYS.filter(({ name }) => USUAL_PLAYS.includes(name))
  test.each(plays)('$name', { timeout: 600_000 }, async (play) => {
    const { remains, statements } = await performWhole(world, play)
    if (isNightly) {
      for (const { n } of statements)
        await performCrash(world, play, { isLast: (statement) => statement.n === n, isClientGone: false }, remains)
    }
    // Here, the client has gone too. If it repeated its request, the change would be published for that reason.
    if (USUAL_PLAYS.includes(play.name)) {
      expect(statements.some(isCommit)).toBe(true)
      await performCrash(world, play, { isLast: isCommit, isClientGone: true }, remains)
    }
  })
})
