import { execFile } from 'node:child_process'
import { chmodSync, existsSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { type Extensions, PGlite } from '@electric-sql/pglite'
import { pg_trgm } from '@electric-sql/pglite/contrib/pg_trgm'
import { unaccent } from '@electric-sql/pglite/contrib/unaccent'
import { PrismaPg } from '@prisma/adapter-pg'
import pg from 'pg'
import { type ConstructorOptions, fromPglite } from 'pg-boss'
import type { Registry } from 'prom-client'
import { PrismaPGlite } from '../generated/pglite-prisma-adapter.ts'
import { type Prisma, PrismaClient } from '../generated/prisma/client.ts'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { createFairTurns } from '../lib/fair-turns.ts'
import { isBoundedHere, requesterHere } from '../lib/requester-context.ts'
import { isStalePlan, isWriteConflict, sqlStateOf } from './database-errors.ts'
import { lockDirectory } from './directory-lock.ts'
import { exitOnCrash } from './embedded-crash.ts'
import { findEmbeddedTemplate } from './embedded-template.ts'
import { applyMigrations } from './migrate.ts'
import { createEmbeddedQueries, createNamedQueries, createStatementNames, NO_NAMES } from './named-statements.ts'
import { openPool } from './pool-metrics.ts'
import { checkTableRights, type InspectedPostgres, inspectPostgres } from './postgres-check.ts'
import {
  type ConnectionOptions,
  configOf,
  createClient,
  jobSchemaOf,
  quoteName,
  searchPathOf,
} from './postgres-connection.ts'
import { grantTablesSql } from './table-rights.ts'

/** A client for queries, either of the database or of a transaction. */
export type Tx = Prisma.TransactionClient

/** The database: PostgreSQL, or PGlite in this process. */
export interface Database {
  prisma: PrismaClient
  kind: 'postgres' | 'pglite'
  /** The options with which pg-boss uses the same database, in its own schema. */
  bossOptions: Pick<ConstructorOptions, 'db' | 'backend' | 'schema' | 'createSchema'>
  /** The user who creates the tables of jobs; null if this is the user of DATABASE_URL. */
  jobOwner: JobOwner | null
  /** Opens connections outside the pool; null for PGlite, which has only one connection. */
  beside: ConnectionsBeside | null
  /**
   * Runs `work` in a transaction. After a serialization failure, a deadlock, or a migration by another process, repeats
   * `work` up to 5 times, with random delays. `work` must use `tx` for every query, and must not make network calls.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /**
   * Executes one statement as its own transaction and returns its rows. Repeats the statement after a serialization
   * failure or deadlock. Use it for the dozen statements that every message and run needs: it bypasses Prisma and
   * prepares a statement only once per connection. Times are returned as Dates, and JSON is parsed. Cast int8 and
   * numeric columns in the statement, because their values depend on the driver.
   */
  query<Row extends object>(statement: Prisma.Sql): Promise<Row[]>
  /**
   * Returns why the database cannot be used; null if it can be used. It can be used if it writes a row within 2 s. If
   * that write is still waiting for a connection, other queries of this process must have succeeded.
   */
  fault(): Promise<string | null>
  close(): Promise<void>
}

/** The user of PARLEY_DIRECT_DATABASE_URL, if this is not the user of DATABASE_URL. */
export interface JobOwner {
  openPool(options: ConnectionOptions): pg.Pool
  /** Grants the user of DATABASE_URL all rights that are needed to perform jobs. */
  grantTables(pool: pg.Pool): Promise<void>
}

/** Opens connections to PostgreSQL outside the pool, directly to the server if PARLEY_DIRECT_DATABASE_URL is set. */
export interface ConnectionsBeside {
  /**
   * `isPooled`: whether the pool connects through a transaction pooler. `isDirect`: whether these connections use
   * PARLEY_DIRECT_DATABASE_URL.
   */
  isPooled: boolean
  isDirect: boolean
  openPool(options: ConnectionOptions): pg.Pool
  /**
   * Creates a connection with its own session. Null if the server can be reached only through a transaction pooler,
   * which has no sessions.
   */
  createSession: ((options: ConnectionOptions) => pg.Client) | null
}

/** Runs `work` in the given transaction, or starts a new one. */
export function inTransaction<T>(db: Database, tx: Tx | undefined, work: (tx: Tx) => Promise<T>): Promise<T> {
  return tx === undefined ? db.transaction(work) : work(tx)
}

/** Executes one statement in the given transaction, or without one through `Database.query`, and returns its rows. */
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
  /** The URL that bypasses the transaction pooler, if `url` points to one. */
  directUrl?: string | null
  /** The results of checking both URLs at startup. */
  inspected?: InspectedPostgres
  dataDirectory: string
  /** Whether the embedded database can create the `vector` extension. */
  hasVectors?: boolean
  /** The maximum number of connections of this process. */
  poolSize?: number
  onError?: (error: Error) => void
  metrics?: Registry
}

/**
 * Settings for PGlite. Its shared buffers (128 MB by default) would take memory of this process, although the operating
 * system already caches the files. The search path is the same as for connections to PostgreSQL.
 */
const START_PARAMETERS = [
  ...PGlite.defaultStartParams,
  '-c',
  'shared_buffers=16MB',
  '-c',
  `search_path=${searchPathOf('public')}`,
]

/** The extensions that migrations use. PGlite needs their code at every start. */
const EXTENSIONS = { pg_trgm, unaccent }

/**
 * Keeps PGlite's WebAssembly in V8's baseline compiler. The optimizing compiler takes half a gigabyte and one core for
 * the first seconds, and leaves a hundred megabytes allocated. It does not make statements faster: on two busy cores,
 * 3000 transactions took 5.1 s without it and 9.4 s with it.
 */
const WEB_ASSEMBLY_FLAGS = ['--no-wasm-tier-up', '--no-wasm-dynamic-tiering']

/**
 * How long statements of the embedded database may block the event loop before other work of this process gets a turn.
 */
const YIELD_AFTER_MS = 5

/** The timeout of the connection for migrations. */
const CONNECT_TIMEOUT_MS = 5000
/** How long a statement waits for a connection of the pool during a burst. */
const LONGEST_WAIT_MS = 20_000
/**
 * How long idle connections are kept. A new connection plans each statement six times, which costs tens of milliseconds
 * for the statements of a run. So connections are kept between messages.
 */
const LONGEST_IDLE_MS = 10 * 60_000

/**
 * Opens the database and applies all migrations.
 * @throws Error with a one-line message if the database cannot be reached
 */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  return options.url === null ? openEmbedded(options) : openPostgres(options.url, options)
}

async function openEmbedded({ dataDirectory, hasVectors = false }: DatabaseOptions): Promise<Database> {
  const unlock = lockDirectory(dataDirectory)
  try {
    const directory = path.join(dataDirectory, 'database')
    if (!existsSync(path.join(directory, 'PG_VERSION'))) await initialise(directory)
    // An existing DATA_DIR can be readable by other users, so its access rights are corrected.
    chmodSync(directory, 0o700)
    for (const flag of WEB_ASSEMBLY_FLAGS) setFlagsFromString(flag)
    // The `vector` extension is optional, because no migration needs it.
    const extensions: Extensions = { ...EXTENSIONS }
    if (hasVectors) extensions['vector'] = (await import('@electric-sql/pglite/vector')).vector
    const pglite = await PGlite.create(directory, { startParams: START_PARAMETERS, extensions })
    exitOnCrash(pglite)
    // PGlite reads the array types only when it starts. Without this call, arrays of enums that a migration has just
    // created would fail until the next start.
    if ((await applyMigrations(pglite)).length > 0) await pglite.refreshArrayTypes()
    const turns = createFairTurns({ places: () => 1, yieldAfterMs: YIELD_AFTER_MS })
    // All statements and transactions use this method, including those of Prisma and pg-boss.
    pglite._runExclusiveTransaction = (work) => {
      const isBounded = isBoundedHere()
      const task = () => {
        // PGlite itself checks this only before the statement waits for its turn.
        if (pglite.closed) throw new Error('The database is closed.')
        return work()
      }
      return turns.run(requesterHere(), task, isBounded ? { isBounded } : { isBounded, longestWaitMs: LONGEST_WAIT_MS })
    }
    const prisma = new PrismaClient({ adapter: new PrismaPGlite(pglite) })
    const queryNamed = createEmbeddedQueries(pglite)
    // Loads Prisma's query compiler now, so that its temporary memory is released with the rest of the startup memory
    // (memory.ts).
    await prisma.entity.findFirst({ select: { id: true } })
    return {
      prisma,
      kind: 'pglite',
      bossOptions: { backend: 'pglite', db: fromPglite(pglite), schema: jobSchemaOf('public') },
      jobOwner: null,
      beside: null,
      transaction: (work) => withRetries(() => prisma.$transaction(work, TRANSACTION)),
      query: <Row extends object>({ text, values }: Prisma.Sql) => withRetries(() => queryNamed<Row>(text, values)),
      fault: shareForAMoment(async () => {
        const fault = await within(HEALTH_TIMEOUT_MS, writeFault(prisma))
        return fault === undefined ? SILENT : fault
      }),
      async close() {
        // Waits for the running transaction before closing PGlite, because a statement on a closed PGlite would crash
        // it.
        await turns.run(undefined, () => pglite.close())
        await prisma.$disconnect()
        unlock()
      },
    }
  } catch (error) {
    unlock()
    throw error
  }
}

/**
 * Creates the new database in another directory and then renames that directory, so that an interrupted start does
 * not leave an incomplete database.
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
  const { directUrl = null, poolSize = 10, onError = () => {}, metrics } = options
  const inspected = options.inspected ?? (await inspectPostgres({ url, directUrl }))
  const { main, direct } = inspected
  await migratePostgres(inspected)
  await checkTableRights(inspected)
  const pool = openPool(
    configOf(main, {
      max: poolSize,
      connectionTimeoutMillis: LONGEST_WAIT_MS,
      idleTimeoutMillis: LONGEST_IDLE_MS,
    }),
    metrics,
  )
  pool.on('error', onError)
  // Many health checks can listen at the same time, so the limit of listeners is removed.
  pool.setMaxListeners(0)
  // Statements get names only on a direct connection, because poolers lose or mix up prepared statements. A name
  // depends only on the statement's text.
  const names = main.keepsSession ? createStatementNames() : NO_NAMES
  const prisma = new PrismaClient({
    adapter: new PrismaPg(pool, {
      schema: main.schema,
      statementNameGenerator: names.of as (statement: { sql: string }) => string,
      onConnectionError: onError,
    }),
  })
  const queryNamed = createNamedQueries(pool, names)
  const beside = direct ?? main
  return {
    prisma,
    kind: 'postgres',
    bossOptions: {
      db: { executeSql: queryNamed },
      schema: quoteName(jobSchemaOf(main.schema)),
      createSchema: !inspected.hasJobSchema,
    },
    jobOwner: jobOwnerOf(inspected),
    beside: {
      isPooled: !main.keepsSession,
      isDirect: directUrl !== null,
      openPool: (config) => new pg.Pool(configOf(beside, config)),
      createSession: direct === null ? null : (config) => createClient(direct, config),
    },
    transaction: (work) => withRetries(() => prisma.$transaction(work, TRANSACTION), names.renew),
    query: <Row extends object>({ text, values }: Prisma.Sql) =>
      withRetries(async () => (await queryNamed<Row>(text, values)).rows, names.renew),
    fault: shareForAMoment(() => faultUnlessBusy(pool, prisma)),
    async close() {
      await prisma.$disconnect()
      await pool.end()
    },
  }
}

function jobOwnerOf({ main, direct, grantee, isJobOwnerDirect }: InspectedPostgres): JobOwner | null {
  if (direct === null || grantee === null || !isJobOwnerDirect) return null
  const grantSql = grantTablesSql(jobSchemaOf(main.schema), grantee, { isJobs: true })
  return {
    openPool: (config) => new pg.Pool(configOf(direct, config)),
    grantTables: async (pool) => void (await pool.query(grantSql)),
  }
}

/**
 * Applies missing migrations over one connection. If DATABASE_URL has another user, grants this user the rights to the
 * tables. Other migrating processes wait for each migration.
 */
async function migratePostgres(inspected: InspectedPostgres): Promise<void> {
  const { main, direct, migrationVariable, pending, grantee, isJobOwnerDirect } = inspected
  if (pending.length === 0 && grantee === null) return
  const { schema } = main
  const client = createClient(direct ?? main, { connectionTimeoutMillis: CONNECT_TIMEOUT_MS })
  // The running query also rejects with the connection's error, so the event needs no handling.
  client.on('error', () => {})
  try {
    await client.connect()
    await applyMigrations({ exec: (sql) => client.query(sql), query: (sql) => client.query(sql) }, { schema })
    if (grantee !== null) await client.query(grantTablesSql(schema, grantee))
    // An earlier start may have been interrupted before it granted these rights.
    if (grantee !== null && isJobOwnerDirect)
      await client.query(grantTablesSql(jobSchemaOf(schema), grantee, { isJobs: true }))
  } catch (error) {
    throw new Error(`${migrationVariable}: the database cannot be used: ${messageOf(error)}`, { cause: error })
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

const HEALTH_TIMEOUT_MS = 2000
/** How long a positive result is reused, so that frequent requests to /health/ready do not cause many writes. */
const HEALTHY_FOR_MS = 1000
const SILENT = 'The database does not respond.'

/** Writes a row. Returns why the write failed; null if the row was written. */
async function writeFault(prisma: PrismaClient): Promise<string | null> {
  try {
    await prisma.$executeRaw`
      INSERT INTO "ReadinessCheck" (id, at) VALUES (1, clock_timestamp()) ON CONFLICT (id) DO UPDATE SET at = excluded.at`
    return null
  } catch (error) {
    const state = sqlStateOf(error)
    if (state === '25006') return 'The database is read-only.'
    return state === null ? SILENT : `The database refuses to write (SQLSTATE ${state}).`
  }
}

/** Returns the result of `fault`, or undefined if there is no result within `timeoutMs`. */
async function within(timeoutMs: number, fault: Promise<string | null>): Promise<string | null | undefined> {
  return Promise.race([fault, sleep(timeoutMs).then(() => undefined)])
}

/**
 * Returns a fault unless the pool is only busy. While a burst exhausts the pool, PostgreSQL is still considered
 * available if connections are being returned, because their statements have succeeded.
 */
async function faultUnlessBusy(pool: pg.Pool, prisma: PrismaClient): Promise<string | null> {
  let returned = 0
  const onRelease = (error: Error | null | undefined) => {
    if (!error) returned += 1
  }
  pool.on('release', onRelease)
  try {
    const fault = await within(HEALTH_TIMEOUT_MS, writeFault(prisma))
    if (fault !== undefined) return fault
    return returned > 0 ? null : SILENT
  } finally {
    pool.off('release', onRelease)
  }
}

/** Makes concurrent calls share one check. For a moment after a successful check, further calls get its result. */
function shareForAMoment(check: () => Promise<string | null>): () => Promise<string | null> {
  let checking: Promise<string | null> | null = null
  let healthyUntil = 0
  return () => {
    if (performance.now() < healthyUntil) return Promise.resolve(null)
    checking ??= check()
      .then((fault) => {
        if (fault === null) healthyUntil = performance.now() + HEALTHY_FOR_MS
        return fault
      })
      .finally(() => {
        checking = null
      })
    return checking
  }
}
