import { createHash, randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { messageOf } from '../lib/errors.ts'

const MIGRATIONS_DIRECTORY = path.resolve(import.meta.dirname, '../../prisma/migrations')

/** The same table as Prisma's schema engine creates, for compatibility with `prisma migrate`. */
const CREATE_TABLE = `
  CREATE TABLE IF NOT EXISTS _prisma_migrations (
    id VARCHAR(36) PRIMARY KEY NOT NULL, checksum VARCHAR(64) NOT NULL, finished_at TIMESTAMPTZ,
    migration_name VARCHAR(255) NOT NULL, logs TEXT, rolled_back_at TIMESTAMPTZ, started_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    applied_steps_count INTEGER NOT NULL DEFAULT 0)`

/** The single connection for migrations: PGlite, or a PostgreSQL session. */
export interface MigrationConnection {
  /** Executes several statements one after the other. */
  exec(sql: string): Promise<unknown>
  query(sql: string): Promise<{ rows: unknown[] }>
}

/**
 * Applies all missing migrations and returns their names. Each is one transaction, which also records it in
 * `_prisma_migrations` with Prisma's checksum. Prisma's own engine would keep tens of megabytes for the life of the
 * process, so only the scripts that write and check migrations use it. Callers that may run concurrently must hold a
 * lock (see openDatabase).
 * @throws Error with the name of the migration that failed, which is rolled back
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

/** Needs no escaping: the name consists of digits, letters and underscores. */
function recordOf(name: string, sql: string): string {
  const checksum = createHash('sha256').update(sql).digest('hex')
  return `INSERT INTO _prisma_migrations (id, checksum, finished_at, migration_name, applied_steps_count)
    VALUES ('${randomUUID()}', '${checksum}', now(), '${name}', 1)`
}
