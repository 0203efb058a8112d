import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { applyMigrations } from '../../src/platform/migrate.ts'

let directory: string

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'parley-migrations-'))
  for (const [name, sql] of [
    ['1_good', 'CREATE TABLE "First" (id int)'],
    ['2_broken', 'CREATE TABLE "Second" (id int); SELECT nothing FROM nowhere'],
  ] as const) {
    await mkdir(path.join(directory, name))
    await writeFile(path.join(directory, name, 'migration.sql'), sql)
  }
})
afterAll(() => rm(directory, { recursive: true }))

test('the error contains the name of a failed migration, which is rolled back; earlier ones stay', async () => {
  await using pglite = await PGlite.create()
  const apply = () => applyMigrations(pglite, { directory })
  await expect(apply()).rejects.toThrow(/the migration 2_broken failed: .*nowhere/)
  const { rows } = await pglite.query<{ tablename: string }>(
    `SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename`,
  )
  expect(rows.map(({ tablename }) => tablename)).toEqual(['First', '_prisma_migrations'])
  await writeFile(path.join(directory, '2_broken', 'migration.sql'), 'CREATE TABLE "Second" (id int)')
  expect(await apply()).toEqual(['2_broken'])
})
