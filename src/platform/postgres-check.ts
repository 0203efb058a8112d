import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { messageOf } from '../lib/errors.ts'
import { type PostgresUrl, PostgresUrlError, readPostgresUrl } from '../lib/postgres-url.ts'
import { pendingMigrations } from './migrate.ts'
import { createClient, jobSchemaOf, type PostgresAccess, quoteName, tlsAttempts } from './postgres-connection.ts'
import { connectionFault, isEncryptionRefusal, isStartupRefusal, isWithoutTls } from './postgres-faults.ts'
import { StartFaults } from './start-faults.ts'

// Checks at startup that a database has everything that the code needs and cannot create itself.

const MAIN = 'DATABASE_URL'
const DIRECT = 'PARLEY_DIRECT_DATABASE_URL'
const OLDEST_VERSION = 14
const CONNECT_TIMEOUT_MS = 5000
/** A custom setting. Its value shows whether a session accepted the settings of its startup message. */
const MARKER = 'parley.start'
/**
 * The order in which the session ids of two connections are queried. No pooler that rotates sessions produces this
 * order.
 */
const ASKED = [0, 0, 1, 0, 1, 1, 0, 1, 0, 0] as const
/** The first migration. Versions before it ignored the parameter `schema`. */
const FIRST_MIGRATION = '20261122000000_init'
const SCHEMAS_SINCE = '20261126160000_bytewise_ids'

/** How this process reaches the database, and what the check found. */
export interface InspectedPostgres {
  /** The connection for statements. */
  main: PostgresAccess & { schema: string }
  /**
   * The connection for work that needs a session: presence and migrations. Null if there is only a connection through a
   * transaction pooler.
   */
  direct: (PostgresAccess & { schema: string }) | null
  /** The name of the environment variable whose URL migrations use. */
  migrationVariable: string
  /**
   * The user of `main`, if `direct` has another user, who then grants the rights to the objects that it creates;
   * otherwise null.
   */
  grantee: string | null
  /** Whether the user of `direct` creates the tables of jobs; otherwise the user of `main` does. */
  isJobOwnerDirect: boolean
  /**
   * Whether the schema of jobs exists. Even for an existing schema, CREATE SCHEMA IF NOT EXISTS needs the right to
   * create schemas.
   */
  hasJobSchema: boolean
  /** The names of the missing migrations. */
  pending: string[]
  /** Warnings for the log, one line each. */
  warnings: string[]
}

interface Facts {
  pid: number
  version: number
  versionName: string
  encoding: string
  isStandby: boolean
  isReadOnly: boolean
  schema: string | null
  searchPath: string
  database: string
  databaseId: string
  startedAt: string
  role: string
  marker: string | null
}

const FACTS = `SELECT pg_backend_pid() AS pid, current_setting('server_version_num')::int AS version,
  current_setting('server_version') AS "versionName", current_setting('server_encoding') AS encoding,
  pg_is_in_recovery() AS "isStandby", current_setting('transaction_read_only')::bool AS "isReadOnly",
  current_schema() AS schema, current_setting('search_path') AS "searchPath", current_database() AS database,
  (SELECT oid::text FROM pg_database WHERE datname = current_database()) AS "databaseId",
  pg_postmaster_start_time()::text AS "startedAt", current_user AS role, current_setting('${MARKER}', true) AS marker`

interface Rights {
  hasSchema: boolean
  mayUse: boolean
  mayCreate: boolean
  hasJobSchema: boolean
  mayUseJobs: boolean
  /** Whether the role can create tables of jobs and owns the existing ones. */
  ownsJobs: boolean
  mayCreateSchemas: boolean
  /**
   * Whether there are tables or sequences that the role is not allowed to use. The next field says whether another role
   * owns tables.
   */
  hasClosedTables: boolean
  hasForeignTables: boolean
  /** Whether the role may read the table of migrations; also true if that table does not exist yet. */
  mayReadMigrations: boolean
}

const RIGHTS = `
  WITH own AS (SELECT oid FROM pg_namespace WHERE nspname = $1), jobs AS (SELECT oid FROM pg_namespace WHERE nspname = $2),
  tables AS (
    SELECT c.oid, c.relowner FROM pg_class c
    WHERE c.relkind IN ('r', 'p') AND (c.relnamespace = (SELECT oid FROM own) OR c.relnamespace = (SELECT oid FROM jobs))
      AND EXISTS (SELECT FROM pg_class m WHERE m.relname = '_prisma_migrations' AND m.relnamespace = (SELECT oid FROM own))
      AND (c.relname ~ '^[A-Z]' OR c.relnamespace = (SELECT oid FROM jobs))
  ),
  sequences AS MATERIALIZED (
    SELECT c.oid FROM pg_class c WHERE c.relkind = 'S' AND c.relnamespace = (SELECT oid FROM own) AND c.relname ~ '^[A-Z]'
  )
  SELECT EXISTS (SELECT FROM own) AS "hasSchema", EXISTS (SELECT FROM jobs) AS "hasJobSchema",
    coalesce((SELECT has_schema_privilege(oid, 'USAGE') FROM own), false) AS "mayUse",
    coalesce((SELECT has_schema_privilege(oid, 'CREATE') FROM own), false) AS "mayCreate",
    coalesce((SELECT has_schema_privilege(oid, 'USAGE') FROM jobs), false) AS "mayUseJobs",
    coalesce((SELECT has_schema_privilege(oid, 'CREATE') FROM jobs), false) AND NOT EXISTS (SELECT FROM pg_class c
      WHERE c.relnamespace = (SELECT oid FROM jobs) AND c.relkind IN ('r', 'p') AND NOT pg_has_role(c.relowner, 'MEMBER'))
      AS "ownsJobs",
    has_database_privilege(current_database(), 'CREATE') AS "mayCreateSchemas",
    EXISTS (SELECT FROM tables WHERE NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
      AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')))
      OR EXISTS (SELECT FROM sequences WHERE NOT has_sequence_privilege(oid, 'USAGE')) AS "hasClosedTables",
    EXISTS (SELECT FROM tables WHERE NOT pg_has_role(relowner, 'MEMBER')) AS "hasForeignTables",
    coalesce((SELECT has_table_privilege(oid, 'SELECT') FROM pg_class
      WHERE relname = '_prisma_migrations' AND relnamespace = (SELECT oid FROM own)), true) AS "mayReadMigrations"`

/** A URL, and the properties that the server at this URL reports. */
interface Reached {
  variable: string
  access: PostgresAccess
  facts: Facts
}

/** The facts for a check of rights. */
type Asked = Pick<Reached, 'variable' | 'access'>
type WithRole = { facts: Pick<Facts, 'role'> }

/**
 * Connects to both URLs without writing anything.
 * @throws StartFaults with all faults
 */
export async function inspectPostgres(urls: { url: string; directUrl: string | null }): Promise<InspectedPostgres> {
  const reaching = [reach(MAIN, urls.url), ...(urls.directUrl === null ? [] : [reach(DIRECT, urls.directUrl)])]
  const reached = await Promise.allSettled(reaching)
  const [main, direct = null] = reached.map((one) => (one.status === 'fulfilled' ? one.value : null))
  const faults = reached.flatMap((one) => (one.status === 'rejected' ? (one.reason as StartFaults).faults : []))
  if (main) faults.push(...faultsOfServer(main))
  if (main && direct) faults.push(...faultsOfPair(main, direct))
  if (faults.length > 0 || !main) throw new StartFaults(faults)

  const schema = schemaOf(main)
  const sessions = direct ?? (main.access.keepsSession ? main : null)
  const migrating = direct ?? main
  return {
    main: { ...main.access, schema },
    direct: sessions && { ...sessions.access, schema },
    migrationVariable: migrating.variable,
    grantee: direct !== null && direct.facts.role !== main.facts.role ? main.facts.role : null,
    ...(await checkRights(main, migrating, schema)),
    warnings: warningsOf(main, direct),
  }
}

async function reach(variable: string, text: string): Promise<Reached> {
  const refuse = (faults: string[]) => new StartFaults(faults.map((fault) => `${variable}: ${fault}`))
  let url: PostgresUrl
  let attempts: ReturnType<typeof tlsAttempts>
  try {
    url = readPostgresUrl(text)
    attempts = tlsAttempts(url)
  } catch (error) {
    throw refuse(error instanceof PostgresUrlError ? error.faults : [messageOf(error)])
  }
  try {
    return { variable, ...(await firstThatWorks(url, attempts)) }
  } catch (error) {
    throw refuse([connectionFault(url, error)])
  }
}

async function firstThatWorks(url: PostgresUrl, attempts: ReturnType<typeof tlsAttempts>) {
  const settings = url.isPooler ? ('transaction' as const) : ('session' as const)
  let failure: unknown
  for (const tls of attempts) {
    try {
      return await examine({ url, tls, settings, keepsSession: !url.isPooler, schema: null })
    } catch (error) {
      // The attempt with TLS may fail only because the server has no TLS, which is not the cause of the first failure.
      if (failure === undefined || !isWithoutTls(error)) failure = error
      if (!isEncryptionRefusal(error)) break
    }
  }
  throw failure
}

/** Connects, and detects whether there is a pooler in front of PostgreSQL, and its kind. */
async function examine(access: PostgresAccess): Promise<{ access: PostgresAccess; facts: Facts }> {
  const marker = randomUUID()
  const inTransactions: PostgresAccess = { ...access, settings: 'transaction' }
  try {
    return await withClient(access, { [MARKER]: marker }, async (client) => {
      const facts = await factsOf(client)
      if (access.settings === 'transaction') {
        await client.query('BEGIN')
        await client.query('COMMIT')
        return { access, facts }
      }
      // PostgreSQL sends the session's process id. A pooler sends another value.
      const isDirect = (client as unknown as { processID: number }).processID === facts.pid
      if (isDirect) return { access, facts }
      const keepsSession = await isSessionKept(access)
      const settings = keepsSession && facts.marker === marker ? 'session' : 'transaction'
      return { access: { ...access, keepsSession, settings }, facts: facts.marker === marker ? facts : await again() }
    })
  } catch (error) {
    if (access.settings === 'transaction' || !isStartupRefusal(error)) throw error
    const { facts } = await examine(inTransactions)
    return { access: { ...inTransactions, keepsSession: await isSessionKept(inTransactions) }, facts }
  }

  /** Reads the server's settings again, after the settings of the URL were applied. */
  async function again(): Promise<Facts> {
    return withClient(inTransactions, {}, factsOf)
  }
}

async function factsOf(client: pg.Client): Promise<Facts> {
  const [facts] = (await client.query<Facts>(FACTS)).rows
  return facts as Facts
}

/**
 * Whether each connection has its own session. When two connections query alternately, an idle transaction pooler gives
 * them the same session, and a busy one gives them changing sessions.
 */
async function isSessionKept(access: PostgresAccess): Promise<boolean> {
  return withClient(access, {}, (one) =>
    withClient(access, {}, async (other) => {
      const pids: [Set<number>, Set<number>] = [new Set(), new Set()]
      for (const asked of ASKED) {
        const client = asked === 0 ? one : other
        const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
        pids[asked].add(rows[0]?.pid ?? 0)
      }
      return pids.every(({ size }) => size === 1) && new Set([...pids[0], ...pids[1]]).size === 2
    }),
  )
}

async function withClient<T>(
  access: PostgresAccess,
  settings: Record<string, string>,
  use: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const connectionTimeoutMillis = access.url.connectTimeoutMs ?? CONNECT_TIMEOUT_MS
  const client = createClient(access, { settings, connectionTimeoutMillis, query_timeout: 4 * CONNECT_TIMEOUT_MS })
  // The running query also rejects with the connection's error, so the event needs no handling.
  client.on('error', () => {})
  try {
    await client.connect()
    return await use(client)
  } finally {
    await client.end()
  }
}

/** Returns the faults of a server that concern all of its users. */
export function faultsOfServer({
  variable,
  facts,
  access,
}: Pick<Reached, 'variable' | 'facts'> & { access: Pick<PostgresAccess, 'url'> }): string[] {
  const faults: string[] = []
  const { version, versionName, encoding, isStandby, isReadOnly, searchPath, database } = facts
  const name = JSON.stringify(database)
  if (version < OLDEST_VERSION * 10_000)
    faults.push(`PostgreSQL ${versionName} is too old: use version ${OLDEST_VERSION} or newer`)
  if (encoding !== 'UTF8')
    faults.push(
      `the encoding of the database ${name} is ${encoding}: create another database with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
    )
  if (isStandby)
    faults.push(`the server of the database ${name} is a read-only standby: use the address of the primary server`)
  else if (isReadOnly)
    faults.push(
      `the database ${name} is read-only (default_transaction_read_only is on): set this parameter to off or, if the hosting provider has set it because the disk is full, free some space`,
    )
  const schema = access.url.schema ?? facts.schema
  if (schema === null)
    faults.push(
      `the search path ${searchPath} contains no existing schema: create a schema with CREATE SCHEMA, or set ?schema=`,
    )
  else if (jobSchemaOf(schema).length > 50 || /['"%$.\\]/.test(schema))
    faults.push(`the schema ${JSON.stringify(schema)} cannot be used: set ?schema= to a name of letters, digits and _`)
  return faults.map((fault) => `${variable}: ${fault}`)
}

function faultsOfPair(main: Reached, direct: Reached): string[] {
  const faults: string[] = []
  const isSame = main.facts.databaseId === direct.facts.databaseId && main.facts.startedAt === direct.facts.startedAt
  if (!isSame) faults.push(`points to a different database than ${MAIN}: use the same server and database`)
  if (!direct.access.keepsSession)
    faults.push('is also a transaction pooler: use the address of the server itself, or of a pooler in session mode')
  const { schema } = direct.access.url
  if (schema !== null && schema !== (main.access.url.schema ?? main.facts.schema))
    faults.push(`has a different schema than ${MAIN}: set the schema only in ${MAIN}`)
  return faults.map((fault) => `${DIRECT}: ${fault}`)
}

/** Returns the schema. Called only if no faults were found, so the value exists. */
const schemaOf = ({ access, facts }: Reached): string => access.url.schema ?? facts.schema ?? 'public'

/**
 * Checks the rights of both roles. `main` executes statements and performs jobs, and `migrating` creates tables.
 * Returns the names of the missing migrations, and which user creates the tables of jobs.
 * @throws StartFaults
 */
async function checkRights(
  main: Reached,
  migrating: Reached,
  schema: string,
): Promise<Pick<InspectedPostgres, 'pending' | 'isJobOwnerDirect' | 'hasJobSchema'>> {
  const isSame = main.facts.role === migrating.facts.role
  const rights = await rightsOf(main, schema)
  const migrationRights = isSame ? rights : await rightsOf(migrating, schema)
  // The migrating user creates the tables of jobs if their schema does not exist yet, or if this user owns it.
  const isJobOwnerDirect = !isSame && (!rights.hasJobSchema || migrationRights.ownsJobs)
  const faults: string[] = []
  const report = ({ variable }: Reached, found: string[]) =>
    faults.push(...found.map((fault) => `${variable}: ${fault}`))
  // If the migrating user owns the tables, it grants the missing rights to a different user of DATABASE_URL after the
  // migrations.
  if (isSame || migrationRights.hasForeignTables) report(main, faultsOfUse(main, rights, schema))
  if (isJobOwnerDirect) report(migrating, faultsOfJobs(migrating, migrationRights, schema))
  else report(main, faultsOfJobs(main, rights, schema))
  if (faults.length > 0) throw new StartFaults(faults)
  report(migrating, faultsOfReadingMigrations(migrating, migrationRights, schema))
  if (faults.length > 0) throw new StartFaults(faults)
  const pending = await pendingIn(migrating, schema)
  const found = { pending, isJobOwnerDirect, hasJobSchema: rights.hasJobSchema }
  if (pending.length === 0) return found
  report(migrating, faultsOfMigrating(migrating, migrationRights, schema))
  if (pending.includes(FIRST_MIGRATION)) faults.push(...(await faultsOfIgnoredSchema(main)))
  if (faults.length > 0) throw new StartFaults(faults)
  return found
}

/**
 * Checks after the migrations that the user of DATABASE_URL can use all tables.
 * @throws StartFaults
 */
export async function checkTableRights({ main, grantee }: InspectedPostgres): Promise<void> {
  if (grantee === null) return
  const reached = { variable: MAIN, access: main, facts: { role: grantee } }
  const faults = faultsOfUse(reached, await rightsOf(reached, main.schema), main.schema)
  if (faults.length > 0) throw new StartFaults(faults.map((fault) => `${MAIN}: ${fault}`))
}

const rightsOf = (reached: Asked, schema: string) =>
  ask(reached, async (client) => {
    const { rows } = await client.query<Rights>(RIGHTS, [schema, jobSchemaOf(schema)])
    return rows[0] as Rights
  })

const pendingIn = (reached: Asked, schema: string) =>
  ask(reached, (client) => pendingMigrations({ query: (sql) => client.query(sql) }, { schema }))

/**
 * Opens a separate connection and passes it to `use`.
 * @throws StartFaults if the connection cannot be opened, or if a query fails
 */
async function ask<T>({ variable, access }: Asked, use: (client: pg.Client) => Promise<T>): Promise<T> {
  try {
    return await withClient(access, {}, use)
  } catch (error) {
    throw new StartFaults([`${variable}: ${connectionFault(access.url, error)}`])
  }
}

function faultsOfSchema({ facts: { role } }: WithRole, rights: Rights, schema: string): string[] {
  if (!rights.hasSchema || rights.mayUse) return []
  const [user, name] = [quoteName(role), quoteName(schema)]
  return [`the user ${user} may not use the schema ${name}: GRANT USAGE ON SCHEMA ${name} TO ${user}`]
}

function faultsOfUse(main: WithRole, rights: Rights, schema: string): string[] {
  const user = quoteName(main.facts.role)
  const faults = faultsOfSchema(main, rights, schema)
  if (faults.length > 0) return faults
  if (rights.hasClosedTables) {
    const schemas = [schema, ...(rights.hasJobSchema ? [jobSchemaOf(schema)] : [])].map(quoteName).join(', ')
    return [
      `the user ${user} may not read or write all tables: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schemas} TO ${user}; GRANT USAGE ON ALL SEQUENCES IN SCHEMA ${quoteName(schema)} TO ${user}`,
    ]
  }
  return []
}

function faultsOfReadingMigrations(migrating: Reached, rights: Rights, schema: string): string[] {
  const faults = faultsOfSchema(migrating, rights, schema)
  if (faults.length > 0 || rights.mayReadMigrations) return faults
  const user = quoteName(migrating.facts.role)
  return [
    `the user ${user} may not read the table of migrations: GRANT SELECT ON ${quoteName(schema)}."_prisma_migrations" TO ${user}`,
  ]
}

function faultsOfJobs({ facts: { role, database } }: Reached, rights: Rights, schema: string): string[] {
  const user = quoteName(role)
  const jobs = quoteName(jobSchemaOf(schema))
  if (rights.hasJobSchema && !rights.mayUseJobs)
    return [`the user ${user} may not use the schema ${jobs}: GRANT USAGE ON SCHEMA ${jobs} TO ${user}`]
  if (!rights.hasJobSchema && !rights.mayCreateSchemas)
    return [
      `the user ${user} may not create the schema ${jobs} for jobs: GRANT CREATE ON DATABASE ${quoteName(database)} TO ${user}, or CREATE SCHEMA ${jobs} AUTHORIZATION ${user}`,
    ]
  return []
}

function faultsOfMigrating({ facts: { role } }: Reached, rights: Rights, schema: string): string[] {
  const user = quoteName(role)
  const name = quoteName(schema)
  if (!rights.hasSchema && !rights.mayCreateSchemas)
    return [`the user ${user} may not create the schema ${name}: CREATE SCHEMA ${name} AUTHORIZATION ${user}`]
  if (rights.hasSchema && !rights.mayCreate)
    return [
      `the user ${user} may not create tables in the schema ${name}: GRANT CREATE, USAGE ON SCHEMA ${name} TO ${user}`,
    ]
  if (rights.hasForeignTables)
    return [
      `the user ${user} does not own the tables, which an upgrade changes: start once as their owner, or GRANT that role TO ${user}`,
    ]
  return []
}

/**
 * Returns faults if Parley's rows are not in the schema that the URL specifies. Versions before 0.3 ignored this
 * parameter and used the first schema of the search path.
 */
async function faultsOfIgnoredSchema(main: Reached): Promise<string[]> {
  const { variable, access, facts } = main
  const { schema } = access.url
  const before = facts.schema
  if (schema === null || before === null || schema === before) return []
  // Tables that this user is not allowed to read belong to another installation.
  const rights = await rightsOf(main, before)
  if (!rights.mayUse || !rights.mayReadMigrations) return []
  const pending = await pendingIn(main, before)
  if (!pending.includes(SCHEMAS_SINCE) || pending.includes(FIRST_MIGRATION)) return []
  return [
    `${variable}: schema=${schema} has no tables, but ${quoteName(before)} has tables from an older version, which ignored this parameter. To keep using those tables, remove the parameter. To use ${schema} instead, start this version once without the parameter, and then set it again`,
  ]
}

function warningsOf(main: Reached, direct: Reached | null): string[] {
  const warnings: string[] = []
  if (!main.access.keepsSession && direct === null)
    warnings.push(
      `${MAIN} is a transaction pooler, and ${DIRECT} is not set: if a process dies, its runs continue after 10 s instead of 5 s, and migrations need a pooler without time limits. PostgreSQL also plans each statement again for each execution.`,
    )
  if (direct !== null && direct.facts.role !== main.facts.role)
    warnings.push(
      `${DIRECT} has a different user than ${MAIN}: if a process dies, its runs may continue after 10 s instead of 5 s`,
    )
  return warnings
}
