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

/** A client for queries: that of the database, or that of a transaction. */
export type Tx = Prisma.TransactionClient

/** The database: PostgreSQL, or PGlite in this process. */
export interface Database {
  prisma: PrismaClient
  kind: 'postgres' | 'pglite'
  /** The options with which pg-boss uses the same database, in its own schema. */
  bossOptions: Pick<ConstructorOptions, 'db' | 'backend' | 'schema' | 'createSchema'>
  /** The user who creates the tables of jobs, if different from the user of DATABASE_URL. */
  jobOwner: JobOwner | null
  /** Opens connections outside the pool; null for PGlite, which has only one connection. */
  beside: ConnectionsBeside | null
  /**
   * Runs `work` in a transaction. Repeats it after a serialization failure, a deadlock, or a migration by another
   * process, up to 5 times, with jitter. `work` must use `tx` for every query, and must not make network calls.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /**
   * Executes one statement as its own transaction and returns its rows. Repeats it after a serialization failure or
   * deadlock. Bypasses Prisma, and prepares the statement once per connection; for the dozen statements that every
   * message and run needs. Times are Dates, and JSON is parsed. int8 and numeric values have the form that the
   * driver returns, so cast them in the statement.
   */
  query<Row extends object>(statement: Prisma.Sql): Promise<Row[]>
  /**
   * Returns why the database cannot serve. Returns null if the database has written a row within 2 s, or, while that
   * write waits for a connection, has executed other queries of this process.
   */
  fault(): Promise<string | null>
  close(): Promise<void>
}

/** The user of PARLEY_DIRECT_DATABASE_URL, if different from the user of DATABASE_URL. */
export interface JobOwner {
  openPool(options: ConnectionOptions): pg.Pool
  /** Grants the user of DATABASE_URL all rights that are needed to perform jobs. */
  grantTables(pool: pg.Pool): Promise<void>
}

/** Opens connections to PostgreSQL outside the pool, directly to the server if PARLEY_DIRECT_DATABASE_URL is set. */
export interface ConnectionsBeside {
  /** Whether the pool connects through a transaction pooler, and these connections use PARLEY_DIRECT_DATABASE_URL. */
  isPooled: boolean
  isDirect: boolean
  openPool(options: ConnectionOptions): pg.Pool
  /**
   * Creates a connection with its own session. Null if the server can be reached only through a transaction pooler,
   * which does not keep sessions.
   */
  createSession: ((options: ConnectionOptions) => pg.Client) | null
}

/** Runs `work` in the given transaction, or in a new one. */
export function inTransaction<T>(db: Database, tx: Tx | undefined, work: (tx: Tx) => Promise<T>): Promise<T> {
  return tx === undefined ? db.transaction(work) : work(tx)
}

/** Executes one statement in the given transaction, or with `Database.query` if none is given, and returns its rows. */
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
  /** The results of checking both URLs at the start. */
  inspected?: InspectedPostgres
  dataDirectory: string
  /** Whether the embedded database can create the extension `vector`. */
  hasVectors?: boolean
  /** The maximum number of connections of this process. */
  poolSize?: number
  onError?: (error: Error) => void
  metrics?: Registry
}

/**
 * Settings for PGlite. It keeps its shared buffers (128 MB by default) in this process, although the operating
 * system already caches the files. The search path is the same as for connections to PostgreSQL.
 */
const START_PARAMETERS = [
  ...PGlite.defaultStartParams,
  ...['-c', 'shared_buffers=16MB'],
  ...['-c', `search_path=${searchPathOf('public')}`],
]

/** The extensions that migrations use. PGlite needs their code at every start. */
const EXTENSIONS = { pg_trgm, unaccent }

/**
 * Keeps PGlite's WebAssembly in V8's baseline compiler. The optimizing compiler uses half a gigabyte and a core for
 * the first seconds and leaves a hundred megabytes allocated, but does not speed up the statements of an embedded
 * server: 3000 transactions took 5.1 s without it and 9.4 s with it, on two busy cores.
 */
const WEB_ASSEMBLY_FLAGS = ['--no-wasm-tier-up', '--no-wasm-dynamic-tiering']

/** The maximum time for which statements of the embedded database block other events of this process. */
const YIELD_AFTER_MS = 5

/** The timeout of the connection for migrations. */
const CONNECT_TIMEOUT_MS = 5000
/** The maximum wait for a connection of the pool during a burst. */
const LONGEST_WAIT_MS = 20_000
/**
 * The time for which idle connections are kept. A new connection plans each statement six times, which takes tens of
 * milliseconds for the statements of a run, so connections are kept between messages.
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
    // An existing DATA_DIR may be readable by other users.
    chmodSync(directory, 0o700)
    for (const flag of WEB_ASSEMBLY_FLAGS) setFlagsFromString(flag)
    // The extension `vector` is optional, because nothing that a migration creates depends on it.
    const extensions: Extensions = { ...EXTENSIONS }
    if (hasVectors) extensions['vector'] = (await import('@electric-sql/pglite/vector')).vector
    const pglite = await PGlite.create(directory, { startParams: START_PARAMETERS, extensions })
    exitOnCrash(pglite)
    // PGlite reads the array types when it starts. Without this call, arrays of enums that a migration has just
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
    // Loads Prisma's query compiler now, so that its temporary memory is released together with other memory of the
    // start (memory.ts).
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
        // Closes PGlite after the running transaction, because the transaction's next statement would crash a closed
        // PGlite.
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
  // Any number of health checks may run at the same time.
  pool.setMaxListeners(0)
  // The names of prepared statements depend only on their texts. Poolers lose prepared statements or confuse them.
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
 * Applies missing migrations over one connection, and grants another user of DATABASE_URL the rights to the tables.
 * Other processes that migrate wait for each migration.
 */
async function migratePostgres(inspected: InspectedPostgres): Promise<void> {
  const { main, direct, migrationVariable, pending, grantee, isJobOwnerDirect } = inspected
  if (pending.length === 0 && grantee === null) return
  const { schema } = main
  const client = createClient(direct ?? main, { connectionTimeoutMillis: CONNECT_TIMEOUT_MS })
  // The running query also rejects with an error from the connection.
  client.on('error', () => {})
  try {
    await client.connect()
    await applyMigrations({ exec: (sql) => client.query(sql), query: (sql) => client.query(sql) }, { schema })
    if (grantee !== null) await client.query(grantTablesSql(schema, grantee))
    // An earlier start may have ended before it granted these rights.
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
 * Repeats `work` after a write conflict. Also repeats it after a migration by another process, and calls
 * `onStalePlan` first.
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
/** How long a positive result is shared, so that requests to /health/ready cannot cause many writes. */
const HEALTHY_FOR_MS = 1000
const SILENT = 'The database does not respond.'

/** Writes a row. Returns why the write failed; null if it succeeded. */
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

/** Returns the result of `fault`; undefined after `timeoutMs`. */
async function within(timeoutMs: number, fault: Promise<string | null>): Promise<string | null | undefined> {
  return Promise.race([fault, sleep(timeoutMs).then(() => undefined)])
}

/**
 * Returns a fault unless the pool is only busy. If a burst exhausts the pool, PostgreSQL still counts as available
 * as long as connections are returned, because their statements have succeeded.
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

/** Makes concurrent calls share one check. Calls shortly after a successful check get its result. */
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
