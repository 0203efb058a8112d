import { expect, test } from 'vitest'
import { sleep } from '../../src/lib/async.ts'
import { createRetention } from '../../src/operation/retention.ts'
import type { Platform } from '../../src/platform/platform.ts'

const KEPT = { messagesDays: 1, runsDays: 1, auditDays: 1 }

/** A fake database with an unlimited number of old messages, each in its own space, which records the requested deletions. */
function neverEnding(deleted: string[]) {
  const query = async ({ sql }: { sql: string }) => {
    const [, table = ''] = /(?:FROM|FROM turn,) ("[A-Za-z]+") t\b/.exec(sql) ?? []
    const isMessages = table === '"Message"'
    if (!sql.includes('pg_try_advisory_xact_lock')) {
      return Array.from({ length: isMessages ? 500 : 1 }, (_, n) => ({ id: `x${n}`, shared: isMessages ? `${n}` : '' }))
    }
    await sleep(1)
    deleted.push(table)
    return [{ mine: true, done: 1 }]
  }
  return { query }
}

test('an endless supply of old messages in many spaces does not delay the deletion of other old data', async () => {
  const deleted: string[] = []
  const platform = { db: neverEnding(deleted), clock: Date, config: { retention: KEPT } } as unknown as Platform
  const { sweep } = createRetention(platform, { longestSweepMs: 50 })
  for (let n = 0; n < 6; n++) await sweep()
  const kinds = ['"Message"', '"Run"', '"InboxEvent"', '"Chain"', '"RootUsage"', '"AuditEntry"', '"StandingGrant"']
  expect(new Set(deleted)).toEqual(new Set(kinds))
})
