import { createHash, randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { messageOf } from '../lib/errors.ts'
import { quoteName } from './postgres-connection.ts'

const MIGRATIONS_DIRECTORY = path.resolve(import.meta.dirname, '../../prisma/migrations')

/** The key of the advisory lock with which only one process at a time migrates a database. */
const MIGRATION_LOCK = 7_275_539

/** Creates the table that Prisma's schema engine would create, for compatibility with `prisma migrate`. */
const CREATE_TABLE = `
  CREATE TABLE IF NOT EXISTS _prisma_migrations (
    id VARCHAR(36) PRIMARY KEY NOT NULL, checksum VARCHAR(64) NOT NULL, finished_at TIMESTAMPTZ,
    migration_name VARCHAR(255) NOT NULL, logs TEXT, rolled_back_at TIMESTAMPTZ, started_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    applied_steps_count INTEGER NOT NULL DEFAULT 0)`

/**
 * The first statement of each transaction that migrates or grants rights. Without the lock, concurrent grants would
 * fail.
 */
export const LOCK_MIGRATIONS_SQL = `SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`

/** The single connection for migrations: PGlite, or a connection to PostgreSQL. */
export interface MigrationConnection {
  /** Executes several statements in sequence. */
  exec(sql: string): Promise<unknown>
  query(sql: string): Promise<{ rows: unknown[] }>
}

export interface MigrationOptions {
  /** The schema of the tables. It is created if it does not exist. */
  schema?: string
  directory?: string
}

/**
 * Applies all missing migrations and returns their names. Each migration runs in one transaction, which also records
 * the migration in `_prisma_migrations` with Prisma's checksum. Prisma's own engine would leave tens of megabytes
 * allocated in the process, so only the scripts that write and check migrations use it.
 *
 * Several processes can migrate at the same time, because each transaction takes a lock. The lock needs no session, so
 * a connection through a transaction pooler is sufficient.
 * @throws Error with the name of the failed migration, which is rolled back
 */
export async function applyMigrations(
  connection: MigrationConnection,
  options: MigrationOptions = {},
): Promise<string[]> {
  const { schema = 'public', directory = MIGRATIONS_DIRECTORY } = options
  const applied: string[] = []
  for (const name of await pendingMigrations(connection, options)) {
    const sql = await readFile(path.join(directory, name, 'migration.sql'), 'utf8')
    if (await apply(connection, { schema, name, sql })) applied.push(name)
  }
  return applied
}

/** Returns the names of the missing migrations in order. */
export async function pendingMigrations(
  connection: Pick<MigrationConnection, 'query'>,
  { schema = 'public', directory = MIGRATIONS_DIRECTORY }: MigrationOptions = {},
): Promise<string[]> {
  const applied = await namesOf(connection, schema)
  const entries = await readdir(directory, { withFileTypes: true })
  return entries.flatMap((entry) => (entry.isDirectory() && !applied.has(entry.name) ? [entry.name] : [])).sort()
}

/** Applies a migration. Returns false if another process has applied it first. */
async function apply(
  connection: MigrationConnection,
  { schema, name, sql }: { schema: string; name: string; sql: string },
): Promise<boolean> {
  try {
    await connection.exec(`BEGIN;
      SET LOCAL statement_timeout = 0;
      SET LOCAL idle_in_transaction_session_timeout = 0;
      ${LOCK_MIGRATIONS_SQL};
      ${createSchemaSql(schema)}
      SET LOCAL search_path = ${quoteName(schema)};
      ${CREATE_TABLE}`)
    const isMissing = !(await namesOf(connection, schema)).has(name)
    if (isMissing) await connection.exec(`${sql.replace(CREATE_PUBLIC, '')}\n;${recordOf(name, sql)}`)
    await connection.exec('COMMIT')
    return isMissing
  } catch (error) {
    await connection.exec('ROLLBACK').catch(() => {})
    throw new Error(`the migration ${name} failed: ${messageOf(error)}`, { cause: error })
  }
}

/**
 * Prisma wrote this statement into the first migration, whose text and checksum must not change. When the migration
 * runs, the schema already exists and can have another name, so the statement is removed.
 */
const CREATE_PUBLIC = /^CREATE SCHEMA IF NOT EXISTS "public";$/m

/**
 * Creates the schema if it does not exist. CREATE SCHEMA IF NOT EXISTS would need the right to create schemas even if
 * the schema exists.
 */
const createSchemaSql = (schema: string) => `
  DO $do$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = '${schema.replaceAll("'", "''")}') THEN
      CREATE SCHEMA ${quoteName(schema)};
    END IF;
  END $do$;`

async function namesOf(connection: Pick<MigrationConnection, 'query'>, schema: string): Promise<Set<string>> {
  const isThere = `SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = '_prisma_migrations' AND n.nspname = '${schema.replaceAll("'", "''")}'`
  if ((await connection.query(isThere)).rows.length === 0) return new Set()
  const { rows } = await connection.query(`SELECT migration_name FROM ${quoteName(schema)}._prisma_migrations
    WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL`)
  return new Set((rows as { migration_name: string }[]).map((row) => row.migration_name))
}

/** The name needs no escaping, because it consists of digits, letters and underscores. */
function recordOf(name: string, sql: string): string {
  const checksum = createHash('sha256').update(sql).digest('hex')
  return `INSERT INTO _prisma_migrations (id, checksum, finished_at, migration_name, applied_steps_count)
    VALUES ('${randomUUID()}', '${checksum}', now(), '${name}', 1)`
}
