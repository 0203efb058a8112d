import { execFile } from 'node:child_process'
import { chmodSync, existsSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { PGlite } from '@electric-sql/pglite'
import { PrismaPg } from '@prisma/adapter-pg'
import pg from 'pg'
import { type ConstructorOptions, fromPglite } from 'pg-boss'
import type { Registry } from 'prom-client'
import { PrismaPGlite } from '../generated/pglite-prisma-adapter.ts'
import { type Prisma, PrismaClient } from '../generated/prisma/client.ts'
import { createDeferred, sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { isStalePlan, isWriteConflict } from './database-errors.ts'
import { lockDirectory } from './directory-lock.ts'
import { findEmbeddedTemplate } from './embedded-template.ts'
import { applyMigrations } from './migrate.ts'
import { createEmbeddedQueries, createNamedQueries, createStatementNames } from './named-statements.ts'
import { openPool } from './pool-metrics.ts'

/** The client for queries: the database, or a transaction in it. */
export type Tx = Prisma.TransactionClient

/** The database: PostgreSQL, or PGlite in this process. */
export interface Database {
  prisma: PrismaClient
  kind: 'postgres' | 'pglite'
  /** The options with which pg-boss uses the same database. */
  bossOptions: Pick<ConstructorOptions, 'db' | 'backend'>
  /**
   * Runs `work` in a transaction. Repeats it after a serialization failure, a deadlock, or a migration by another
   * process, at most 5 times, with jitter. Inside, use `tx` for every query, and make no network calls.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /**
   * Executes one statement as its own transaction and returns its rows; repeats it after a serialization failure or
   * deadlock. Bypasses Prisma and is prepared once per connection, for the dozen statements of every message and run.
   * Times are Dates and JSON is parsed; int8 and numeric are returned as the driver does, so cast them in the
   * statement.
   */
  query<Row extends object>(statement: Prisma.Sql): Promise<Row[]>
  /**
   * Whether the database answers within 2 s: a query, or, while that waits for a connection, other queries of this
   * process.
   */
  healthy(): Promise<boolean>
  close(): Promise<void>
}

/** Runs `work` in the given transaction, or in a new one. */
export function inTransaction<T>(db: Database, tx: Tx | undefined, work: (tx: Tx) => Promise<T>): Promise<T> {
  return tx === undefined ? db.transaction(work) : work(tx)
}

/** Executes one statement in the given transaction, or else by `Database.query`, and returns its rows. */
export function queryWithin<Row extends object>(
  db: Pick<Database, 'query'>,
  tx: Tx | undefined,
  statement: Prisma.Sql,
): Promise<Row[]> {
  return tx === undefined ? db.query(statement) : tx.$queryRaw<Row[]>(statement)
}

export interface DatabaseOptions {
  /** The URL of PostgreSQL; null for PGlite under `dataDirectory`. */
  url: string | null
  dataDirectory: string
  /** The most connections of this process. */
  poolSize?: number
  onError?: (error: Error) => void
  metrics?: Registry
}

/**
 * PGlite keeps its shared buffers (128 MB by default) in this process, while the operating system already caches the
 * files.
 */
const START_PARAMETERS = [...PGlite.defaultStartParams, '-c', 'shared_buffers=16MB']

/**
 * Keeps PGlite's WebAssembly in the baseline compiler. The optimizing compiler takes half a gigabyte and a core for the
 * first seconds and leaves a hundred megabytes behind, but does not speed up the statements of an embedded server: 3000
 * transactions took 5.1 s without it and 9.4 s with it, on two busy cores.
 */
const WEB_ASSEMBLY_FLAGS = ['--no-wasm-tier-up', '--no-wasm-dynamic-tiering']

const MIGRATION_LOCK = 7_275_539
/** The timeout of the first connection, at the start. */
const CONNECT_TIMEOUT_MS = 5000
/** The longest wait for a connection of the pool during a burst. */
const LONGEST_WAIT_MS = 20_000
/**
 * A new connection plans each statement six times, which takes tens of milliseconds for the statements of a run, so
 * idle connections are kept between messages.
 */
const LONGEST_IDLE_MS = 10 * 60_000

/**
 * Opens the database and applies all migrations. @throws Error with one readable line if the database cannot be reached
 */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  return options.url === null ? openEmbedded(options) : openPostgres(options.url, options)
}

async function openEmbedded({ dataDirectory }: DatabaseOptions): Promise<Database> {
  const unlock = lockDirectory(dataDirectory)
  try {
    const directory = path.join(dataDirectory, 'database')
    if (!existsSync(path.join(directory, 'PG_VERSION'))) await initialise(directory)
    // An existing DATA_DIR may be readable by others.
    chmodSync(directory, 0o700)
    for (const flag of WEB_ASSEMBLY_FLAGS) setFlagsFromString(flag)
    const pglite = await PGlite.create(directory, { startParams: START_PARAMETERS })
    // PGlite reads the array types at its start. Without this, arrays of enums that were created just now would fail
    // until the next start.
    if ((await applyMigrations(pglite)).length > 0) await pglite.refreshArrayTypes()
    const prisma = new PrismaClient({ adapter: new PrismaPGlite(pglite) })
    const queryNamed = createEmbeddedQueries(pglite)
    // Loads Prisma's query compiler now, so that its temporary memory is released together with the rest (memory.ts).
    await prisma.entity.findFirst({ select: { id: true } })
    return {
      prisma,
      kind: 'pglite',
      bossOptions: { backend: 'pglite', db: fromPglite(pglite) },
      transaction: (work) => withRetries(() => prisma.$transaction(work, TRANSACTION)),
      query: <Row extends object>({ text, values }: Prisma.Sql) => withRetries(() => queryNamed<Row>(text, values)),
      healthy: () => answers(prisma),
      async close() {
        await prisma.$disconnect()
        await pglite.close()
        unlock()
      },
    }
  } catch (error) {
    unlock()
    throw error
  }
}

/**
 * Creates the new database in another directory and renames that, so that an interrupted start leaves nothing
 * incomplete.
 */
async function initialise(directory: string): Promise<void> {
  const draft = `${directory}.new`
  await rm(draft, { recursive: true, force: true })
  const template = await findEmbeddedTemplate()
  if (template.copyTo(draft)) return rename(draft, directory)
  await promisify(execFile)(process.execPath, [
    ...WEB_ASSEMBLY_FLAGS,
    path.join(import.meta.dirname, `init-embedded${path.extname(import.meta.url)}`),
    draft,
  ])
  await rename(draft, directory)
}

async function openPostgres(url: string, options: DatabaseOptions): Promise<Database> {
  const { poolSize = 10, onError = () => {}, metrics } = options
  const poolConfig: pg.PoolConfig = {
    connectionString: url,
    max: poolSize,
    connectionTimeoutMillis: LONGEST_WAIT_MS,
    idleTimeoutMillis: LONGEST_IDLE_MS,
    statement_timeout: 30_000,
    idle_in_transaction_session_timeout: 30_000,
    keepAlive: true,
  }
  const pool = openPool(poolConfig, metrics)
  pool.on('error', onError)
  // Any number of health checks may run at the same time.
  pool.setMaxListeners(0)
  // Names of Prisma's statements and of others depend on their texts only.
  const names = createStatementNames()
  const factory = new PrismaPg(pool, { statementNameGenerator: names.of, onConnectionError: onError })
  try {
    await migratePostgres(url)
  } catch (error) {
    await pool.end()
    throw new Error(`DATABASE_URL: the database cannot be used: ${messageOf(error)}`)
  }
  const prisma = new PrismaClient({ adapter: factory })
  const queryNamed = createNamedQueries(pool, names)
  return {
    prisma,
    kind: 'postgres',
    bossOptions: { db: { executeSql: queryNamed } },
    transaction: (work) => withRetries(() => prisma.$transaction(work, TRANSACTION), names.renew),
    query: <Row extends object>({ text, values }: Prisma.Sql) =>
      withRetries(async () => (await queryNamed<Row>(text, values)).rows, names.renew),
    healthy: () => answersSomebody(pool, prisma),
    async close() {
      await prisma.$disconnect()
      await pool.end()
    },
  }
}

/**
 * Lets one process migrate at a time: the others wait for the lock and then find nothing to do. The session with the
 * lock is the one that migrates, so that the lock cannot be lost before the work is done; the end of the session
 * releases it.
 */
async function migratePostgres(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: CONNECT_TIMEOUT_MS })
  // An error of the connection is also thrown by the running query.
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK])
    await applyMigrations({ exec: (sql) => client.query(sql), query: (sql) => client.query(sql) })
  } finally {
    await client.end()
  }
}

const TRANSACTION = { maxWait: LONGEST_WAIT_MS, timeout: 20_000 }
const MOST_ATTEMPTS = 5

/**
 * Repeats `work` after a write conflict, and after a migration by another process, for which it first calls
 * `onStalePlan`.
 */
async function withRetries<T>(work: () => Promise<T>, onStalePlan = () => {}): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      const isStale = isStalePlan(error)
      if (isStale) onStalePlan()
      if (attempt === MOST_ATTEMPTS || !(isWriteConflict(error) || isStale)) throw error
      await sleep(attempt * 10 * Math.random())
    }
  }
}

async function answers(prisma: PrismaClient): Promise<boolean> {
  const answer = prisma.$queryRaw`SELECT 1`.then(
    () => true,
    () => false,
  )
  return Promise.race([answer, sleep(2000).then(() => false)])
}

/**
 * Whether PostgreSQL answers other queries: a pool exhausted by a burst does not mean that PostgreSQL is unavailable,
 * as long as connections are returned.
 */
function answersSomebody(pool: pg.Pool, prisma: PrismaClient): Promise<boolean> {
  const { promise, resolve } = createDeferred<boolean>()
  const onRelease = (error: Error | null | undefined) => {
    if (!error) resolve(true)
  }
  pool.on('release', onRelease)
  void answers(prisma).then(resolve)
  return promise.finally(() => pool.off('release', onRelease))
}
