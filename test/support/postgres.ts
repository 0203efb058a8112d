import { createHash, randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import pg from 'pg'
import { openJobs } from '../../src/jobs/jobs.ts'
import { openDatabase } from '../../src/platform/db.ts'
import { runId } from './run-id.ts'

const MIGRATIONS = path.resolve(import.meta.dirname, '../../prisma/migrations')
const LOCAL_SERVER = 'postgresql://postgres@127.0.0.1:5432/postgres'
/**
 * The key of the advisory lock for making, dropping or cloning a template. It can be any number that is the same in all
 * processes.
 */
const TEMPLATE_LOCK = 7_209_114
const QUEUES = path.resolve(import.meta.dirname, '../../src/jobs/queues.ts')
const LOCK_FILE = path.resolve(import.meta.dirname, '../../package-lock.json')
const LEFT_BEHIND_AFTER_MS = 2 * 60 * 60 * 1000

/** A database for one test, with every migration applied and no rows. */
export interface TestDatabase {
  url: string
  /** Drops the database, and breaks the remaining connections. */
  drop(): Promise<void>
}

/** Returns the server that tests use: TEST_DATABASE_URL, or else the machine's own; null if neither responds. */
export async function findPostgres(): Promise<string | null> {
  const named = process.env.TEST_DATABASE_URL
  const url = named || LOCAL_SERVER
  try {
    await withClient(url, (client) => client.query('SELECT 1'))
    return url
  } catch (error) {
    if (named) throw new Error('TEST_DATABASE_URL is set, but nothing answers there', { cause: error })
    return null
  }
}

/**
 * Skips a test file without PostgreSQL: `describe.skipIf(!hasPostgres)`. The global setup has printed a warning about the
 * missing server, or on a CI machine has failed the run.
 */
export const hasPostgres: boolean = Boolean(process.env.TEST_DATABASE_URL)

/**
 * Clones a migrated template in about 50 ms. The template is created once for each state of the migrations and packages.
 * Commits wait for the disk only if the database must be durable, for benchmarks. No test crashes the server of the other
 * databases.
 */
export async function createTestDatabase({ isDurable = false } = {}): Promise<TestDatabase> {
  return createDatabase(async (client, server, name) => {
    await client.query('SELECT pg_advisory_lock($1)', [TEMPLATE_LOCK])
    const template = await ensureTemplate(client, server)
    await client.query(`CREATE DATABASE ${name} TEMPLATE ${template}`)
    if (!isDurable) await client.query(`ALTER DATABASE ${name} SET synchronous_commit = off`)
  })
}

/** The settings of a new database, in the syntax of `CREATE DATABASE` and `ALTER DATABASE … SET`. */
export interface DatabaseMake {
  /** Clauses of CREATE DATABASE, such as `ENCODING 'LATIN1'`. */
  clauses?: string
  settings?: Record<string, string>
  /** SQL to execute in the new database. */
  statements?: readonly string[]
}

/** Clauses for a database with Danish collation, in which "aa" comes after "z". ICU needs no locale of the machine. */
export const DANISH = "LOCALE_PROVIDER icu ICU_LOCALE 'da-DK' ENCODING 'UTF8'"

/** Creates an empty database, without any table. */
export async function createEmptyDatabase({
  clauses = '',
  settings = {},
  statements = [],
}: DatabaseMake = {}): Promise<TestDatabase> {
  return createDatabase(async (client, server, name) => {
    await client.query(`CREATE DATABASE ${name} TEMPLATE template0 ${clauses}`)
    for (const [setting, value] of Object.entries(settings))
      await client.query(`ALTER DATABASE ${name} SET ${setting} = '${value}'`)
    if (statements.length === 0) return
    await withClient(databaseUrl(server, name), async (inside) => {
      for (const statement of statements) await inside.query(statement)
    })
  })
}

async function createDatabase(
  create: (client: pg.Client, server: string, name: string) => Promise<void>,
): Promise<TestDatabase> {
  const server = await findPostgres()
  if (server === null) throw new Error('no PostgreSQL for tests: set TEST_DATABASE_URL')
  const name = `parley_test_${Date.now().toString(36)}_${runId()}_${randomBytes(6).toString('hex')}`
  await withClient(server, (client) => create(client, server, name))
  return {
    url: databaseUrl(server, name),
    drop: () => withClient(server, async (client) => void (await client.query(dropStatement(name)))),
  }
}

/** Drops test databases that a killed run left on the server more than two hours ago. */
export async function dropLeftBehind(server: string): Promise<void> {
  await withClient(server, async (client) => {
    for (const name of await databasesLike(client, 'parley_test_%')) {
      const made = Number.parseInt(name.split('_')[2] ?? '', 36)
      if (made < Date.now() - LEFT_BEHIND_AFTER_MS) await client.query(dropStatement(name))
    }
  })
}

/** Drops the databases that tests of this run have not dropped. */
export async function dropDatabases(server: string): Promise<void> {
  await withClient(server, async (client) => {
    const pattern = `parley\\_test\\_%\\_${runId()}\\_%`
    for (const name of await databasesLike(client, pattern)) await client.query(dropStatement(name))
  })
}

/** The caller's connection holds the lock, which ends with the connection. */
async function ensureTemplate(client: pg.Client, server: string): Promise<string> {
  stateHash ??= computeStateHash()
  const name = `parley_template_${await stateHash}`
  const templates = await databasesLike(client, 'parley_template_%')
  if (templates.includes(name)) return name
  for (const outdated of templates) await client.query(dropStatement(outdated))
  const draft = name.replace('template', 'draft')
  await client.query(dropStatement(draft))
  await client.query(`CREATE DATABASE ${draft} TEMPLATE template0`)
  await prepare(databaseUrl(server, draft))
  await client.query(`ALTER DATABASE ${draft} RENAME TO ${name}`)
  return name
}

/** Prepares a database as a first start does: applies our migrations, and those of the job queue. */
async function prepare(url: string): Promise<void> {
  const database = await openDatabase({ url, dataDirectory: '' })
  const jobs = await openJobs(database, { supervise: false, onError: (error) => console.error(error) })
  await jobs.close()
  await database.close()
}

let stateHash: Promise<string> | undefined

async function computeStateHash(): Promise<string> {
  const hash = createHash('sha256')
    .update(await readFile(LOCK_FILE))
    .update(await readFile(QUEUES))
  for (const file of (await readdir(MIGRATIONS, { recursive: true })).sort()) {
    if (file.endsWith('.sql')) hash.update(file).update(await readFile(path.join(MIGRATIONS, file)))
  }
  return hash.digest('hex').slice(0, 16)
}

async function databasesLike(client: pg.Client, pattern: string): Promise<string[]> {
  const { rows } = await client.query<{ datname: string }>('SELECT datname FROM pg_database WHERE datname LIKE $1', [
    pattern,
  ])
  return rows.map((row) => row.datname)
}

const dropStatement = (name: string) => `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`

function databaseUrl(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
}

async function withClient<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000 })
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}
