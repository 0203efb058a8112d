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

/** What queries run on: the database, or a transaction in it. */
export type Tx = Prisma.TransactionClient

/** The database, opened once: PostgreSQL, or PGlite in this process. */
export interface Database {
  prisma: PrismaClient
  kind: 'postgres' | 'pglite'
  /** How pg-boss reaches the same database. */
  bossOptions: Pick<ConstructorOptions, 'db' | 'backend'>
  /**
   * Runs `work` in a transaction; a serialization failure, a deadlock, or another process that has migrated, runs it again, at most
   * 5 times, with jitter.
   * Inside, every query goes through `tx`. No network call belongs in there.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /**
   * The rows of one statement, which is a transaction of its own; a serialization failure or deadlock runs it again. It goes past
   * Prisma, straight to the driver, prepared once a connection: for the dozen statements that every message and run makes. Times are
   * Dates, JSON is parsed; int8 and numeric come as the driver has them, so cast them in the statement.
   */
  query<Row extends object>(statement: Prisma.Sql): Promise<Row[]>
  /** Whether the database answers within 2 s: a query of its own, or, where that waits for a connection, somebody who has one. */
  healthy(): Promise<boolean>
  close(): Promise<void>
}

/** Runs `work` in the transaction that there is, or in one of its own. */
export function inTransaction<T>(db: Database, tx: Tx | undefined, work: (tx: Tx) => Promise<T>): Promise<T> {
  return tx === undefined ? db.transaction(work) : work(tx)
}

/** The rows of one statement, in the transaction that there is, or in one of its own as `Database.query` does it. */
export function queryWithin<Row extends object>(
  db: Pick<Database, 'query'>,
  tx: Tx | undefined,
  statement: Prisma.Sql,
): Promise<Row[]> {
  return tx === undefined ? db.query(statement) : tx.$queryRaw<Row[]>(statement)
}

export interface DatabaseOptions {
  /** PostgreSQL; null for PGlite under `dataDirectory`. */
  url: string | null
  dataDirectory: string
  /** Connections of this process at most. */
  poolSize?: number
  onError?: (error: Error) => void
  metrics?: Registry
}

/** PGlite keeps its shared buffers, 128 MB by default, in this process; the files are in the operating system's cache anyway. */
const START_PARAMETERS = [...PGlite.defaultStartParams, '-c', 'shared_buffers=16MB']

/**
 * PostgreSQL stays as the baseline compiler makes it. The optimizing one takes half a gigabyte and a core for the first seconds,
 * leaves a hundred megabytes behind, and the statements that an embedded server runs are no faster for it: 3000 transactions
 * took 5.1 s without it and 9.4 s with it, on two busy cores.
 */
const WEB_ASSEMBLY_FLAGS = ['--no-wasm-tier-up', '--no-wasm-dynamic-tiering']

const MIGRATION_LOCK = 7_275_539
/** For the first connection, at the start. */
const CONNECT_TIMEOUT_MS = 5000
/** For a connection of the pool, when a burst has taken them all. */
const LONGEST_WAIT_MS = 20_000
/** A new connection plans each statement six times, which for those of a run takes tens of milliseconds: between two messages it is kept. */
const LONGEST_IDLE_MS = 10 * 60_000

/** Opens the database and brings it to the newest migration. @throws Error with one readable line when it cannot be reached. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  return options.url === null ? openEmbedded(options) : openPostgres(options.url, options)
}

async function openEmbedded({ dataDirectory }: DatabaseOptions): Promise<Database> {
  const unlock = lockDirectory(dataDirectory)
  try {
    const directory = path.join(dataDirectory, 'database')
    if (!existsSync(path.join(directory, 'PG_VERSION'))) await initialise(directory)
    // Where DATA_DIR was there before, others may look into it.
    chmodSync(directory, 0o700)
    for (const flag of WEB_ASSEMBLY_FLAGS) setFlagsFromString(flag)
    const pglite = await PGlite.create(directory, { startParams: START_PARAMETERS })
    // PGlite learns at its start which types have arrays: without this, arrays of enums made just now would fail until the next one.
    if ((await applyMigrations(pglite)).length > 0) await pglite.refreshArrayTypes()
    const prisma = new PrismaClient({ adapter: new PrismaPGlite(pglite) })
    const queryNamed = createEmbeddedQueries(pglite)
    // Loads Prisma's query compiler now, so that what loading it leaves behind goes with the rest of the start's (memory.ts).
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

/** A new database is made beside and moved into its place whole: a start that is cut off leaves nothing half made. */
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
  // However many ask at one time whether it is healthy.
  pool.setMaxListeners(0)
  // Prisma's statements and the others' are told apart by their texts.
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
 * One process migrates at a time: the others wait for the lock and find nothing left to do. The session that holds the lock is
 * the one that migrates, so that the lock cannot be lost before the work is done; its end releases it.
 */
async function migratePostgres(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: CONNECT_TIMEOUT_MS })
  // What breaks the connection is thrown by the query under way.
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

/** Does it again where others were in its way, and where another process has migrated, which `onStalePlan` is told first. */
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

/** A pool that a burst has taken whole is no sign that PostgreSQL is away, as long as connections come back. */
function answersSomebody(pool: pg.Pool, prisma: PrismaClient): Promise<boolean> {
  const { promise, resolve } = createDeferred<boolean>()
  const onRelease = (error: Error | null | undefined) => {
    if (!error) resolve(true)
  }
  pool.on('release', onRelease)
  void answers(prisma).then(resolve)
  return promise.finally(() => pool.off('release', onRelease))
}
