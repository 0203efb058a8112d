import pg from 'pg'
import { expect, test } from 'vitest'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { openDatabase } from '../../src/platform/db.ts'
import { createTestDatabase, hasPostgres } from '../support/postgres.ts'

/** Those that a process prepares once and then goes on with. */
const TIMES = 6

test.skipIf(!hasPostgres)('a process that runs while another one migrates goes on', async () => {
  const { url, drop } = await createTestDatabase()
  const db = await openDatabase({ url, dataDirectory: '', poolSize: 2 })
  const run = Prisma.sql`UPDATE "Run" SET error = ${'x'} WHERE id = ${'none'} RETURNING *`
  const call = Prisma.sql`UPDATE "ToolCall" SET error = ${'x'} WHERE id = ${'none'} RETURNING *`
  const all = async () => [
    await db.query(run),
    await db.transaction(async (tx) => [await tx.$queryRaw(run), await tx.$queryRaw(call)]),
  ]
  for (let n = 0; n < TIMES; n++) await Promise.all([all(), all()])
  const other = new pg.Client(url)
  await other.connect()
  await other.query('ALTER TABLE "Run" ADD COLUMN later text; ALTER TABLE "ToolCall" ADD COLUMN later text')
  await other.end()
  for (let n = 0; n < TIMES; n++) expect(await all()).toEqual([[], [[], []]])
  await db.close()
  await drop()
})
