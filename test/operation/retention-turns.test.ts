import { expect, test } from 'vitest'
import { sleep } from '../../src/lib/async.ts'
import { createRetention } from '../../src/operation/retention.ts'
import type { Platform } from '../../src/platform/platform.ts'

const KEPT = { messagesDays: 1, runsDays: 1, auditDays: 1 }

/** A database that never comes to an end of old messages, each in a space of its own, and says what it is asked to delete. */
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

test('old messages without end, each in another space, leave their turn to all else that is old', async () => {
  const deleted: string[] = []
  const platform = { db: neverEnding(deleted), clock: Date, config: { retention: KEPT } } as unknown as Platform
  const { sweep } = createRetention(platform, { longestSweepMs: 50 })
  for (let n = 0; n < 6; n++) await sweep()
  const kinds = ['"Message"', '"Run"', '"InboxEvent"', '"Chain"', '"RootUsage"', '"AuditEntry"']
  expect(new Set(deleted)).toEqual(new Set(kinds))
})
