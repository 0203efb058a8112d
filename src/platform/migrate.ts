import { createHash, randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import type { SqlDriverAdapterFactory, SqlQueryable } from '@prisma/driver-adapter-utils'

const MIGRATIONS_DIRECTORY = path.resolve(import.meta.dirname, '../../prisma/migrations')

/** Prisma's own table, as its schema engine makes it: `prisma migrate` and we understand one another. */
const CREATE_TABLE = `
  CREATE TABLE IF NOT EXISTS _prisma_migrations (
    id VARCHAR(36) PRIMARY KEY NOT NULL, checksum VARCHAR(64) NOT NULL, finished_at TIMESTAMPTZ,
    migration_name VARCHAR(255) NOT NULL, logs TEXT, rolled_back_at TIMESTAMPTZ, started_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    applied_steps_count INTEGER NOT NULL DEFAULT 0)`

/**
 * Brings a database to the newest migration and answers with the names of those applied now. Each is one transaction, in which
 * it is recorded in `_prisma_migrations` with Prisma's checksum. Prisma's own engine would do the same, at the price of tens of
 * megabytes for as long as the process lives: it is used by the scripts that write and check migrations only.
 * Callers that may run at the same time must hold a lock (see openDatabase).
 */
export async function applyMigrations(factory: SqlDriverAdapterFactory): Promise<string[]> {
  const adapter = await factory.connect()
  try {
    await adapter.executeScript(CREATE_TABLE)
    const applied = await namesOf(adapter)
    const names = (await readdir(MIGRATIONS_DIRECTORY, { withFileTypes: true }))
      .flatMap((entry) => (entry.isDirectory() && !applied.has(entry.name) ? [entry.name] : []))
      .sort()
    for (const name of names) {
      const sql = await readFile(path.join(MIGRATIONS_DIRECTORY, name, 'migration.sql'), 'utf8')
      await adapter.executeScript(`BEGIN;\n${sql}\n;${recordOf(name, sql)};\nCOMMIT;`)
    }
    return names
  } finally {
    await adapter.dispose()
  }
}

async function namesOf(adapter: SqlQueryable): Promise<Set<unknown>> {
  const sql = 'SELECT migration_name FROM _prisma_migrations WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL'
  const { rows } = await adapter.queryRaw({ sql, args: [], argTypes: [] })
  return new Set(rows.map(([name]) => name))
}

/** The folder's name holds nothing but digits, letters and underscores: it is written as it is. */
function recordOf(name: string, sql: string): string {
  const checksum = createHash('sha256').update(sql).digest('hex')
  return `INSERT INTO _prisma_migrations (id, checksum, finished_at, migration_name, applied_steps_count)
    VALUES ('${randomUUID()}', '${checksum}', now(), '${name}', 1)`
}
