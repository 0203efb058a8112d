import { cp, readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { expect, test } from 'vitest'
import { applyMigrations } from '../../src/platform/migrate.ts'
import { makeScratchFolder } from '../support/scratch.ts'

const MIGRATIONS = path.resolve(import.meta.dirname, '../../prisma/migrations')

/** Folders of the migrations up to one, that one left out. */
async function migrationsBefore(name: string): Promise<{ directory: string; remove(): Promise<void> }> {
  const directory = await makeScratchFolder('parley-migrations-')
  for (const folder of (await readdir(MIGRATIONS)).filter((folder) => folder < name))
    await cp(path.join(MIGRATIONS, folder), path.join(directory, folder), { recursive: true })
  return { directory, remove: () => rm(directory, { recursive: true, force: true }) }
}

test('what was queued, executed or answered before runs were claimed from their rows can be claimed after the upgrade', async () => {
  const before = await migrationsBefore('20261122101022_due_and_claims')
  await using pglite = await PGlite.create()
  await applyMigrations(pglite, before.directory)
  const runs = ['QUEUED', 'RUNNING', 'WAITING_TOOL', 'COMPLETED'].map((status) => [status.toLowerCase(), status])
  for (const [id, status] of [...runs, ['answered', 'WAITING_TOOL']])
    await pglite.query(
      `INSERT INTO "Run" (id, "agentId", status, "triggerType", "triggerSummary", depth, "rootId", "jobId", "queuedAt")
       VALUES ($1, $1, $2::"RunStatus", 'SERVICE', '', 0, $1, 'job', now() - interval '1 hour')`,
      [id, status],
    )
  for (const [runId, status] of [
    ['waiting_tool', 'WAITING'],
    ['answered', 'DONE'],
  ])
    await pglite.query(
      `INSERT INTO "ToolCall" (id, "runId", "agentId", "stepIndex", "modelCallId", "toolName", status)
       VALUES ($1, $1, 'a', 0, 'c', 'ask', $2::"ToolCallStatus")`,
      [runId, status],
    )
  await applyMigrations(pglite)
  const { rows } = await pglite.query<{ id: string }>(
    'SELECT id FROM "Run" WHERE "claimableAt" <= now() AND "leaseUntil" IS NULL ORDER BY id',
  )
  expect(rows.map(({ id }) => id)).toEqual(['answered', 'queued', 'running'])
  await before.remove()
})
