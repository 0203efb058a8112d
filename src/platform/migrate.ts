import { createHash, randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { messageOf } from '../lib/errors.ts'

const MIGRATIONS_DIRECTORY = path.resolve(import.meta.dirname, '../../prisma/migrations')

/** Prisma's own table, as its schema engine makes it: `prisma migrate` and we understand one another. */
const CREATE_TABLE = `
  CREATE TABLE IF NOT EXISTS _prisma_migrations (
    id VARCHAR(36) PRIMARY KEY NOT NULL, checksum VARCHAR(64) NOT NULL, finished_at TIMESTAMPTZ,
    migration_name VARCHAR(255) NOT NULL, logs TEXT, rolled_back_at TIMESTAMPTZ, started_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    applied_steps_count INTEGER NOT NULL DEFAULT 0)`

/** The one connection that migrations run on: PGlite, or a session of PostgreSQL. */
export interface MigrationConnection {
  /** Runs the statements of a text, one after the other. */
  exec(sql: string): Promise<unknown>
  query(sql: string): Promise<{ rows: unknown[] }>
}

/**
 * Brings a database to the newest migration and answers with the names of those applied now. Each is one transaction, in which
 * it is recorded in `_prisma_migrations` with Prisma's checksum. Prisma's own engine would do the same, at the price of tens of
 * megabytes for as long as the process lives: it is used by the scripts that write and check migrations only.
 * Callers that may run at the same time must hold a lock (see openDatabase).
 * @throws with the name of the one that failed, of which nothing is left.
 */
export async function applyMigrations(
  connection: MigrationConnection,
  directory = MIGRATIONS_DIRECTORY,
): Promise<string[]> {
  await connection.exec(CREATE_TABLE)
  const applied = await namesOf(connection)
  const names = (await readdir(directory, { withFileTypes: true }))
    .flatMap((entry) => (entry.isDirectory() && !applied.has(entry.name) ? [entry.name] : []))
    .sort()
  for (const name of names) {
    const sql = await readFile(path.join(directory, name, 'migration.sql'), 'utf8')
    await apply(connection, name, sql)
  }
  return names
}

async function apply(connection: MigrationConnection, name: string, sql: string): Promise<void> {
  try {
    await connection.exec(`BEGIN;\n${sql}\n;${recordOf(name, sql)};\nCOMMIT;`)
  } catch (error) {
    await connection.exec('ROLLBACK').catch(() => {})
    throw new Error(`the migration ${name} failed: ${messageOf(error)}`, { cause: error })
  }
}

async function namesOf(connection: MigrationConnection): Promise<Set<string>> {
  const sql = 'SELECT migration_name FROM _prisma_migrations WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL'
  const { rows } = await connection.query(sql)
  return new Set((rows as { migration_name: string }[]).map((row) => row.migration_name))
}

/** The folder's name holds nothing but digits, letters and underscores: it is written as it is. */
function recordOf(name: string, sql: string): string {
  const checksum = createHash('sha256').update(sql).digest('hex')
  return `INSERT INTO _prisma_migrations (id, checksum, finished_at, migration_name, applied_steps_count)
    VALUES ('${randomUUID()}', '${checksum}', now(), '${name}', 1)`
}
