import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { type Database, openDatabase } from '../../src/platform/db.ts'
import { inspectPostgres } from '../../src/platform/postgres-check.ts'
import { canStartPgBouncer, type PgBouncer, type PgBouncerOptions, startPgBouncer } from '../support/pgbouncer.ts'
import { createEmptyDatabase, createTestDatabase, hasPostgres, type TestDatabase } from '../support/postgres.ts'
import { startTestServer } from '../support/served.ts'
import { openStage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const TRANSACTIONS: PgBouncerOptions = { poolMode: 'transaction', settings: { default_pool_size: 4 } }
const IGNORED = 'extra_float_digits,statement_timeout,idle_in_transaction_session_timeout,options,search_path'

describe.skipIf(!hasPostgres || !canStartPgBouncer())('a database behind PgBouncer', () => {
  let database: TestDatabase
  const closing: (() => Promise<unknown>)[] = []

  beforeAll(async () => {
    database = await createTestDatabase()
    await withDatabase(database.url, (db) =>
      db.prisma.$executeRawUnsafe(
        `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Kolkata''', current_database()); END $$`,
      ),
    )
  })
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close()
  })
  afterAll(() => database?.drop())

  async function pooler(options: PgBouncerOptions): Promise<PgBouncer> {
    const started = await startPgBouncer(database.url, options)
    closing.push(() => started.dispose())
    return started
  }

  async function withDatabase<T>(url: string, use: (db: Database) => Promise<T>): Promise<T> {
    const db = await openDatabase({ url, dataDirectory: '' })
    try {
      return await use(db)
    } finally {
      await db.close()
    }
  }

  test.each([
    ['in transaction mode', TRANSACTIONS, '', { keepsSession: false, settings: 'transaction' }],
    [
      'in transaction mode with one connection',
      { ...TRANSACTIONS, settings: { default_pool_size: 1 } },
      '',
      { keepsSession: false },
    ],
    [
      'in transaction mode with connections that take turns',
      { ...TRANSACTIONS, settings: { default_pool_size: 2, min_pool_size: 2, server_round_robin: 1 } },
      '',
      { keepsSession: false },
    ],
    ['named as a pooler', TRANSACTIONS, '?pgbouncer=true', { keepsSession: false, settings: 'transaction' }],
    [
      'that ignores what a connection is set to',
      { ...TRANSACTIONS, settings: { ignore_startup_parameters: IGNORED } },
      '',
      { keepsSession: false, settings: 'transaction' },
    ],
    ['in session mode', { poolMode: 'session' }, '', { keepsSession: true, settings: 'transaction' }],
    [
      'in session mode, that ignores what a connection is set to',
      { poolMode: 'session', settings: { ignore_startup_parameters: IGNORED } },
      '',
      { keepsSession: true, settings: 'transaction' },
    ],
  ] satisfies [string, PgBouncerOptions, string, object][])(
    '%s is detected, and each transaction has its settings',
    async (_, options, parameters, access) => {
      const url = (await pooler(options)).through(database.url) + parameters
      const inspected = await inspectPostgres({ url, directUrl: null })
      expect(inspected.main).toMatchObject(access)
      await withDatabase(url, async (db) => {
        const shown = Prisma.sql`SELECT current_setting('TimeZone') AS zone, current_setting('search_path') AS path,
          current_setting('statement_timeout') AS timeout, ${1}::int AS one`
        const expected = [{ zone: 'UTC', path: '"pgboss", "public"', timeout: '30s', one: 1 }]
        for (let turn = 0; turn < 3; turn++) {
          const rows = await Promise.all([
            db.query(shown),
            db.prisma.$queryRaw(shown),
            db.transaction((tx) => tx.$queryRaw(shown)),
          ])
          expect(rows).toEqual([expected, expected, expected])
        }
        const texts = await db.query(Prisma.sql`SELECT 'a' AS text`)
        expect(texts).toEqual([{ text: 'a' }])
        await expect(db.query(Prisma.sql`SELECT 1 / ${0}::int`)).rejects.toThrow('division by zero')
        await expect(
          db.transaction(async (tx) => {
            await tx.entity.create({ data: { id: `hum_${'0'.repeat(32)}`, kind: 'HUMAN', name: 'Nobody' } })
            throw new Error('rolled back')
          }),
        ).rejects.toThrow('rolled back')
        expect(await db.prisma.entity.count()).toBe(0)
        expect(await db.fault()).toBeNull()
      })
    },
  )

  test('a pooler in statement mode, without the database, or with another password, is refused with the correct setting', async () => {
    const refused = (url: string) => inspectPostgres({ url, directUrl: null })
    const statements = (await pooler({ poolMode: 'statement' })).through(database.url)
    await expect(refused(statements)).rejects.toThrow(
      /^DATABASE_URL: the pooler at .* \(transaction blocks not allowed in statement pooling mode\): set its pool_mode to/,
    )
    const { through } = await pooler({ ...TRANSACTIONS, settings: { auth_type: 'plain' } })
    const as = (password: string) => Object.assign(new URL(through(database.url)), { username: 'ada', password }).href
    await expect(refused(as('wrong'))).rejects.toThrow(/the pooler at .* rejected the user "ada" or the password: /)
    await expect(refused(as(''))).rejects.toThrow(/requires a password for the user "ada": put it in the URL/)
    const others: PgBouncerOptions = { ...TRANSACTIONS, database: 'other', settings: { auth_type: 'trust' } }
    const named = (await pooler(others)).through(database.url)
    await expect(refused(named)).rejects.toThrow(
      /the pooler at .* has no database "parley_test_.*": add it to \[databases\]/,
    )
  })

  test('is used for statements, and the server itself for sessions, if both are configured', async () => {
    const url = (await pooler(TRANSACTIONS)).through(database.url)
    const inspected = await inspectPostgres({ url, directUrl: database.url })
    expect(inspected).toMatchObject({
      main: { keepsSession: false },
      direct: { keepsSession: true, settings: 'session' },
      warnings: [],
    })
    const db = await openDatabase({ url, directUrl: database.url, dataDirectory: '' })
    closing.push(() => db.close())
    const session = db.beside?.createSession?.({})
    await session?.connect()
    closing.push(async () => session?.end())
    await session?.query('SELECT pg_advisory_lock(1)')
    const { rows } = (await session?.query(`SELECT count(*)::int AS held FROM pg_locks
      WHERE locktype = 'advisory' AND pid = pg_backend_pid()`)) ?? { rows: [] }
    expect(rows).toEqual([{ held: 1 }])
  })

  test('warns at startup what the missing direct URL costs', async () => {
    const url = (await pooler(TRANSACTIONS)).through(database.url)
    const { direct, warnings } = await inspectPostgres({ url, directUrl: null })
    expect(direct).toBeNull()
    expect(warnings).toEqual([
      expect.stringMatching(/^DATABASE_URL is a transaction pooler, and PARLEY_DIRECT_DATABASE_URL is not set: /),
    ])
  })

  test('is refused as the direct server, as is another database', async () => {
    const url = (await pooler(TRANSACTIONS)).through(database.url)
    await expect(inspectPostgres({ url, directUrl: url })).rejects.toThrow(
      'PARLEY_DIRECT_DATABASE_URL: is also a transaction pooler',
    )
    const other = await createEmptyDatabase()
    closing.push(() => other.drop())
    await expect(inspectPostgres({ url, directUrl: other.url })).rejects.toThrow(
      'PARLEY_DIRECT_DATABASE_URL: points to a different database than DATABASE_URL',
    )
  })

  test.each([
    ['the owner of the database', false],
    ['a user who may create nothing in it, with a schema for jobs', true],
  ])('is migrated by the user of the direct URL, %s, for another user of the pooler', async (_, hasSchemas) => {
    const empty = await createEmptyDatabase()
    closing.push(() => empty.drop())
    const [app, owner] = ['parley_test_app', 'parley_test_owner']
    const name = new URL(empty.url).pathname.slice(1)
    const execute = async (sql: string) => {
      const client = new pg.Client({ connectionString: empty.url })
      await client.connect()
      await client.query(sql).finally(() => client.end())
    }
    for (const role of [app, owner])
      await execute(`DO $$ BEGIN CREATE ROLE ${role} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`)
    closing.push(() => execute(`DROP OWNED BY ${app}, ${owner} CASCADE`))
    await execute('REVOKE CREATE ON SCHEMA public FROM PUBLIC')
    await execute(
      hasSchemas
        ? `GRANT CREATE, USAGE ON SCHEMA public TO ${owner}; CREATE SCHEMA pgboss AUTHORIZATION ${owner}`
        : `ALTER DATABASE ${name} OWNER TO ${owner}; ALTER SCHEMA public OWNER TO ${owner}`,
    )
    if (!hasSchemas) closing.push(() => execute(`ALTER DATABASE ${name} OWNER TO CURRENT_USER`))
    const { through } = await pooler({ ...TRANSACTIONS, user: app })
    const as = (role: string, url: string) => Object.assign(new URL(url), { username: role, password: '' }).href
    const settings = {
      DATABASE_URL: as(app, through(empty.url)),
      PARLEY_DIRECT_DATABASE_URL: as(owner, empty.url),
    }
    for (let start = 0; start < 2; start++) {
      const parley = await startTestServer({ stack: 'postgres', isFresh: true, settings })
      closing.push(() => parley.close())
      const stage = await openStage(parley)
      parley.models.script(() => [{ text: 'Nothing to do.' }])
      const [person, agent] = [await stage.person('Ada'), await stage.bot('Bo')]
      const space = await stage.space('Room', [person, agent])
      await stage.say(person, space, 'Hello')
      expect((await stage.endedRuns(agent, 1)).map(({ status }) => status)).toEqual(['COMPLETED'])
      await closing.pop()?.()
    }
    const db = await openDatabase({
      url: settings.DATABASE_URL,
      directUrl: settings.PARLEY_DIRECT_DATABASE_URL,
      dataDirectory: '',
    })
    closing.push(() => db.close())
    const owners = await db.query(Prisma.sql`SELECT DISTINCT tableowner AS owner FROM pg_tables
      WHERE schemaname IN ('public', 'pgboss')`)
    expect(owners).toEqual([{ owner }])
  })

  test('is migrated, holds conversations, and runs jobs, through the pooler alone', async () => {
    const empty = await createEmptyDatabase()
    closing.push(() => empty.drop())
    const { through } = await pooler({ poolMode: 'transaction', settings: { default_pool_size: 3 } })
    const parley = await startTestServer({
      stack: 'postgres',
      isFresh: true,
      settings: { DATABASE_URL: through(empty.url) },
    })
    closing.push(() => parley.close())
    const stage = await openStage(parley)
    parley.models.script(() => [{ text: 'Nothing to do.' }])
    const person = await stage.person('Ada')
    const agents = await Promise.all(['Bo', 'Cy', 'Di'].map((name) => stage.bot(name)))
    const spaces = await Promise.all(agents.map((agent) => stage.space(`Room of ${agent.name}`, [person, agent])))
    await Promise.all(spaces.flatMap((space) => [1, 2, 3].map((n) => stage.say(person, space, `Hello ${n}`))))
    for (const agent of agents) {
      const runs = await stage.endedRuns(agent, 3)
      expect(runs.map(({ status }) => status)).toEqual(['COMPLETED', 'COMPLETED', 'COMPLETED'])
    }
    const { plan } = await stage.ask(
      stage.admin,
      `mutation ($input: CreatePlanInput!) { createPlan(input: $input) { ... on CreatePlanPayload { plan { id } } ... on Error { message } } }`,
      { input: { agentId: agents[0]?.id, name: 'soon', instruction: 'Say hi.', schedule: { afterSeconds: 1 } } },
    )
    await until('the plan has fired', async () => {
      const { firings } = await stage.ask(
        stage.admin,
        `query ($id: ID!) { node(id: $id) { ... on Plan { firings { edges { node { firedAt } } } } } }`,
        { id: plan.id },
      )
      return firings.edges.length === 1
    })
  })
})
