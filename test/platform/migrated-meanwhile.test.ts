import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { type Database, openDatabase } from '../../src/platform/db.ts'
import { createTestDatabase, hasPostgres } from '../support/postgres.ts'

/** Statements that a process prepares once and then reuses. */
const TIMES = 6

const RUN = Prisma.sql`UPDATE "Run" SET error = ${'x'} WHERE id = ${'none'} RETURNING *`
const CALL = Prisma.sql`UPDATE "ToolCall" SET error = ${'x'} WHERE id = ${'none'} RETURNING *`
const CONNECTIONS = 8

describe.skipIf(!hasPostgres)('a process that runs during a migration by another process', () => {
  const theirs = (db: Database) => ({
    'its transactions': () => db.transaction(async (tx) => [await tx.$queryRaw(RUN), await tx.$queryRaw(CALL)]),
    'its statements': () => db.query(CALL),
  })

  test.each(['its transactions', 'its statements'] as const)('continues with %s', async (which) => {
    const { url, drop } = await createTestDatabase()
    const db = await openDatabase({ url, dataDirectory: '', poolSize: CONNECTIONS })
    const run = theirs(db)[which]
    const onEach = () => Promise.all(Array.from({ length: CONNECTIONS }, run))
    for (let n = 0; n < TIMES; n++) await onEach()
    const other = new pg.Client(url)
    await other.connect()
    await other.query('ALTER TABLE "Run" ADD COLUMN later text; ALTER TABLE "ToolCall" ADD COLUMN later text')
    await other.end()
    const nothing = await run()
    expect(await onEach()).toEqual(Array(CONNECTIONS).fill(nothing))
    await db.close()
    await drop()
  })
})
