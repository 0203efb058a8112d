import { chmodSync, statSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Database, openDatabase } from '../../src/platform/db.ts'
import { createTestDataDirectory } from '../support/pglite.ts'

let directory: Awaited<ReturnType<typeof createTestDataDirectory>>
let db: Database

beforeAll(async () => {
  directory = await createTestDataDirectory()
  chmodSync(directory.path, 0o755)
  chmodSync(path.join(directory.path, 'database'), 0o755)
  db = await openDatabase({ url: null, dataDirectory: directory.path })
})
afterAll(async () => {
  await db?.close()
  await directory?.remove()
})

test('only its user can read the embedded database, even below a directory that is open to others', () => {
  expect(statSync(path.join(directory.path, 'database')).mode & 0o077).toBe(0)
})
