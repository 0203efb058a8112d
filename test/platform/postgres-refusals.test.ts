import { mkdir, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer } from 'node:net'
import path from 'node:path'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { createApp } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'
import { readPostgresUrl } from '../../src/lib/postgres-url.ts'
import { openDatabase } from '../../src/platform/db.ts'
import { faultsOfServer, inspectPostgres } from '../../src/platform/postgres-check.ts'
import { StartFaults } from '../../src/platform/start-faults.ts'
import { freePort } from '../support/free-port.ts'
import { createEmptyDatabase, type DatabaseMake, hasPostgres, type TestDatabase } from '../support/postgres.ts'
import { makeScratchFolder } from '../support/scratch.ts'
import { openThrowawayPostgres, type ThrowawayPostgres } from '../support/throwaway-postgres.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

async function database(make: DatabaseMake = {}): Promise<TestDatabase> {
  const made = await createEmptyDatabase(make)
  closing.push(() => made.drop())
  return made
}

async function execute(url: string, ...statements: string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    for (const statement of statements) await client.query(statement)
  } finally {
    await client.end()
  }
}

const GUEST = 'parley_test_guest'

/** Returns the URL for a user without any privileges, whose tables are dropped at the end of the test. */
async function guestOf(url: string): Promise<string> {
  const password = 'password-of-a-guest'
  await execute(
    url,
    `DO $$ BEGIN CREATE ROLE ${GUEST}; EXCEPTION WHEN duplicate_object THEN NULL; END $$`,
    `ALTER ROLE ${GUEST} LOGIN PASSWORD '${password}'`,
  )
  closing.push(() => execute(url, `DROP OWNED BY ${GUEST}`))
  return withParts(url, { username: GUEST, password })
}

/** Returns the lines that a refused start with this URL prints. */
async function refusal(url: string, directUrl: string | null = null): Promise<string[]> {
  try {
    await inspectPostgres({ url, directUrl })
    return []
  } catch (error) {
    if (!(error instanceof StartFaults)) throw error
    return error.faults
  }
}

/** The error that PostgreSQL sends at the beginning of a connection if it has no free one. */
const TOO_MANY_CLIENTS = (() => {
  const fields = Buffer.from('SFATAL\0VFATAL\0C53300\0Msorry, too many clients already\0\0')
  const length = Buffer.alloc(4)
  length.writeInt32BE(4 + fields.length)
  return Buffer.concat([Buffer.from('E'), length, fields])
})()

function withParts(url: string, parts: Partial<Pick<URL, 'username' | 'password' | 'pathname' | 'search' | 'host'>>) {
  return Object.assign(new URL(url), parts).href
}

describe.skipIf(!hasPostgres)('startup is refused in one line', () => {
  test('where no server listens, and where the database does not exist', async () => {
    const { url } = await database()
    const port = await freePort()
    expect(await refusal(withParts(url, { host: `127.0.0.1:${port}` }))).toEqual([
      `DATABASE_URL: no server listens at 127.0.0.1:${port}: start PostgreSQL or the pooler there, or correct the host and port`,
    ])
    expect(await refusal(withParts(url, { pathname: '/nowhere' }))).toEqual([
      expect.stringMatching(
        /^DATABASE_URL: there is no database "nowhere" at .*: correct the name, or run CREATE DATABASE$/,
      ),
    ])
    expect(await refusal('postgresql://h/x?host=/nowhere')).toEqual([
      expect.stringMatching(/^DATABASE_URL: the socket \/nowhere\/.s.PGSQL.5432 does not exist: /),
    ])
    expect(await refusal(withParts(url, { username: 'nobody_of_parley' }))).toEqual([
      expect.stringMatching(
        /^DATABASE_URL: PostgreSQL (does not allow the user "nobody_of_parley" to connect|rejected the password of the user "nobody_of_parley")/,
      ),
    ])
  })

  test('for a database that is not UTF8', async () => {
    const latin = await database({ clauses: `ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'` })
    const ascii = await database({ clauses: `ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'` })
    for (const [{ url }, encoding] of [
      [latin, 'LATIN1'],
      [ascii, 'SQL_ASCII'],
    ] as const)
      expect(await refusal(url)).toEqual([
        expect.stringMatching(
          new RegExp(
            `^DATABASE_URL: the encoding of the database ".*" is ${encoding}: create another database with CREATE DATABASE … ENCODING 'UTF8'`,
          ),
        ),
      ])
  })

  test('for a database that is configured as read-only', async () => {
    const { url } = await database({ settings: { default_transaction_read_only: 'on' } })
    expect(await refusal(url)).toEqual([expect.stringMatching(/^DATABASE_URL: the database ".*" is read-only \(/)])
  })

  test('for an old version, together with all other problems', () => {
    const facts = {
      pid: 1,
      version: 130_014,
      versionName: '13.14',
      encoding: 'LATIN1',
      isStandby: true,
      isReadOnly: true,
      schema: null,
      searchPath: 'app',
      database: 'chat',
      databaseId: '1',
      startedAt: '',
      role: 'ada',
      marker: null,
    }
    expect(
      faultsOfServer({ variable: 'DATABASE_URL', facts, access: { url: readPostgresUrl('postgresql://h/chat') } }),
    ).toEqual([
      'DATABASE_URL: PostgreSQL 13.14 is too old: use version 14 or newer',
      expect.stringContaining('DATABASE_URL: the encoding of the database "chat" is LATIN1'),
      'DATABASE_URL: the server of the database "chat" is a read-only standby: use the address of the primary server',
      expect.stringContaining('DATABASE_URL: the search path app contains no existing schema'),
    ])
  })

  test('for a search path without a schema', async () => {
    const { url } = await database()
    expect(await refusal(`${url}?options=-c%20search_path%3Dnowhere`)).toEqual([
      expect.stringMatching(/^DATABASE_URL: the search path nowhere contains no existing schema: /),
    ])
  })

  test('for a user without the rights to create, use or own the tables, with the missing grants', async () => {
    const { url } = await database()
    const guest = await guestOf(url)
    const role = GUEST
    await execute(url, 'REVOKE CREATE ON SCHEMA public FROM PUBLIC')
    const name = new URL(url).pathname.slice(1)
    const may = (right: string) => execute(url, right)
    expect(await refusal(guest)).toEqual([
      `DATABASE_URL: the user "${role}" may not create the schema "pgboss" for jobs: GRANT CREATE ON DATABASE "${name}" TO "${role}", or CREATE SCHEMA "pgboss" AUTHORIZATION "${role}"`,
    ])
    await may(`CREATE SCHEMA pgboss AUTHORIZATION ${role}`)
    expect(await refusal(guest)).toEqual([
      `DATABASE_URL: the user "${role}" may not create tables in the schema "public": GRANT CREATE, USAGE ON SCHEMA "public" TO "${role}"`,
    ])
    expect(await refusal(`${guest}?schema=own`)).toEqual([
      expect.stringContaining('may not create the schema "pgboss_own" for jobs'),
    ])
    await (await openDatabase({ url, dataDirectory: '' })).close()
    expect(await refusal(guest)).toEqual([
      expect.stringMatching(
        /^DATABASE_URL: the user ".*" may not read or write all tables: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "public", "pgboss" TO "parley_test_guest"; GRANT USAGE ON ALL SEQUENCES IN SCHEMA "public" TO "/,
      ),
    ])
    await may(`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ${role}`)
    expect(await refusal(guest)).toEqual([expect.stringContaining('may not read or write all tables')])
    await may(`GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO ${role}`)
    await may(`REVOKE ALL ON _prisma_migrations FROM ${role}`)
    expect(await refusal(guest)).toEqual([
      `DATABASE_URL: the user "${role}" may not read the table of migrations: GRANT SELECT ON "public"."_prisma_migrations" TO "${role}"`,
    ])
    expect(await refusal(url, guest)).toEqual([
      expect.stringMatching(/^PARLEY_DIRECT_DATABASE_URL: the user ".*" may not read the table of migrations: /),
    ])
    // Only the user who migrates reads that table.
    expect(await refusal(guest, url)).toEqual([])
    await may(`GRANT SELECT ON _prisma_migrations TO ${role}`)
    expect(await refusal(guest)).toEqual([])
    await may(`DELETE FROM _prisma_migrations WHERE migration_name LIKE '%readiness_check'`)
    expect(await refusal(guest)).toEqual([expect.stringContaining('may not create tables in the schema "public"')])
    await may(`GRANT CREATE ON SCHEMA public TO ${role}`)
    expect(await refusal(guest)).toEqual([
      expect.stringMatching(/^DATABASE_URL: the user ".*" does not own the tables, which an upgrade changes: /),
    ])
    // The owner uses the other URL to migrate.
    expect(await refusal(guest, url)).toEqual([])
  })

  test('if PostgreSQL has a free connection for the first query only', async () => {
    const { url } = await database()
    const { hostname, port } = new URL(url)
    let connections = 0
    const relay = createServer((socket) => {
      connections += 1
      socket.on('error', () => {})
      if (connections > 1) return void socket.once('data', () => socket.end(TOO_MANY_CLIENTS))
      const server = connect(Number(port || 5432), hostname).on('error', () => {})
      socket.pipe(server).pipe(socket)
    })
    await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve))
    closing.push(() => new Promise((resolve) => relay.close(resolve)))
    const { port: relayPort } = relay.address() as AddressInfo
    expect(await refusal(withParts(url, { host: `127.0.0.1:${relayPort}` }))).toEqual([
      'DATABASE_URL: PostgreSQL has no free connection (sorry, too many clients already): raise max_connections, or use a pooler',
    ])
  })

  test('if a migration fails, with the variable of the URL that it used', async () => {
    const { url } = await database({ statements: ['CREATE TABLE "Entity" (id text)'] })
    const start = (directUrl: string | null) => openDatabase({ url, directUrl, dataDirectory: '' })
    const failure = 'the database cannot be used: the migration 20261122000000_init failed: '
    await expect(start(null)).rejects.toThrow(`DATABASE_URL: ${failure}`)
    await expect(start(url)).rejects.toThrow(`PARLEY_DIRECT_DATABASE_URL: ${failure}`)
  })

  test('for a schema that an earlier version ignored', async () => {
    const { url } = await database()
    await (await openDatabase({ url, dataDirectory: '' })).close()
    const elsewhere = `${url}?schema=production`
    expect(await refusal(elsewhere)).toEqual([])
    await execute(url, `DELETE FROM _prisma_migrations WHERE migration_name >= '20261126160000'`)
    expect(await refusal(elsewhere)).toEqual([
      'DATABASE_URL: schema=production has no tables, but "public" has tables from an older version, which ignored this parameter. To keep using those tables, remove the parameter. To use production instead, start this version once without the parameter, and then set it again',
    ])
    // If a user may not read a table, the table cannot belong to that user.
    const guest = await guestOf(url)
    for (const schema of ['production', 'pgboss_production'])
      await execute(url, `CREATE SCHEMA ${schema} AUTHORIZATION ${GUEST}`)
    expect(await refusal(`${guest}?schema=production`)).toEqual([])
  })

  test('together with the problems of Redis and DATA_DIR', async () => {
    const port = await freePort()
    const settings = {
      DATABASE_URL: `postgresql://127.0.0.1:${port}/x`,
      REDIS_URL: `redis://127.0.0.1:${port}`,
      DATA_DIR: path.join(import.meta.filename, 'below-a-file'),
    }
    const alsoCheck = async () => {
      throw new Error('PORT: in use')
    }
    const error = await createApp(readConfig({ ...settings, PARLEY_LOG_LEVEL: 'silent' }), { alsoCheck }).catch(
      (thrown) => thrown,
    )
    expect(error.faults).toEqual([
      expect.stringMatching(/^DATABASE_URL: no server listens/),
      expect.stringMatching(/^REDIS_URL: /),
      expect.stringMatching(/^DATA_DIR: .*below-a-file cannot be used: /),
      'PORT: in use',
    ])
  })

  test('for an unusable DATA_DIR, before anything is written to the database', async () => {
    const { url } = await database()
    const settings = { DATABASE_URL: url, PARLEY_LOG_LEVEL: 'silent' }
    const start = (more: object) => createApp(readConfig({ ...settings, ...more }))
    const unusable = { DATA_DIR: path.join(import.meta.filename, 'below-a-file') }
    await expect(start(unusable)).rejects.toThrow(/^DATA_DIR: .*below-a-file cannot be used: /)
    // The directory can be read and written, but the key file in it cannot.
    const folder = await makeScratchFolder('parley-data-')
    closing.push(() => rm(folder, { recursive: true }))
    await mkdir(path.join(folder, 'secret-key'))
    await expect(start({ DATA_DIR: folder })).rejects.toThrow(`DATA_DIR: ${folder} cannot be used: EISDIR`)
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    closing.push(() => client.end())
    const { rows } = await client.query(`SELECT nspname FROM pg_namespace WHERE nspname LIKE 'pgboss%'
      UNION ALL SELECT tablename FROM pg_tables WHERE schemaname = 'public'`)
    expect(rows).toEqual([])
    // A process that stores nothing needs no directory.
    const secrets = { PARLEY_ADMIN_TOKEN: 'a'.repeat(32), PARLEY_SECRET_KEY: 'b'.repeat(32) }
    const app = await start({ ...unusable, ...secrets })
    await app.close(0)
  })

  test('if the direct URL is set without DATABASE_URL', () => {
    expect(() => readConfig({ PARLEY_DIRECT_DATABASE_URL: 'postgresql://h/x' })).toThrow(
      'PARLEY_DIRECT_DATABASE_URL: needs DATABASE_URL',
    )
  })
})

describe.skipIf(!hasPostgres)('a PostgreSQL with passwords and TLS', () => {
  let server: ThrowawayPostgres | null
  let plain: ThrowawayPostgres | null
  let certificates = ''

  beforeAll(async () => {
    const files = ['ssl=on', 'ssl_cert_file=server.crt', 'ssl_key_file=server.key']
    server = await openThrowawayPostgres({
      settings: [...files, 'password_encryption=scram-sha-256'],
      async prepare(data, run) {
        certificates = data
        const at = (name: string) => path.join(data, name)
        const subject = (name: string) => ['-subj', `/CN=${name}`]
        await run('openssl', [
          'req',
          '-x509',
          '-newkey',
          'rsa:2048',
          '-nodes',
          '-days',
          '2',
          '-keyout',
          at('ca.key'),
          '-out',
          at('ca.crt'),
          ...subject('Test CA'),
        ])
        await run('openssl', [
          'req',
          '-newkey',
          'rsa:2048',
          '-nodes',
          '-keyout',
          at('server.key'),
          '-out',
          at('server.csr'),
          ...subject('localhost'),
        ])
        await run('openssl', [
          'x509',
          '-req',
          '-in',
          at('server.csr'),
          '-CA',
          at('ca.crt'),
          '-CAkey',
          at('ca.key'),
          '-CAcreateserial',
          '-days',
          '2',
          '-out',
          at('server.crt'),
        ])
        const rules = [
          'hostnossl all postgres 127.0.0.1/32 trust',
          'hostssl all postgres 127.0.0.1/32 trust',
          'hostssl all ada 127.0.0.1/32 scram-sha-256',
        ]
        await run('sh', ['-c', `printf '%s\\n' "$@" > "$0"`, at('pg_hba.conf'), ...rules])
      },
    })
    if (server === null) return
    await execute(server.url, `CREATE ROLE ada LOGIN PASSWORD 'p@ss' SUPERUSER`)
    plain = await openThrowawayPostgres()
  })
  afterAll(async () => {
    await server?.dispose()
    await plain?.dispose()
  })

  /** Returns whether a connection with these parameters is encrypted, or why it failed. */
  async function encryption(url: string): Promise<boolean | string> {
    const faults = await refusal(url)
    if (faults.length > 0) return faults.join('\n')
    const { main } = await inspectPostgres({ url, directUrl: null })
    return main.tls !== false
  }
  const ada = (search = '', host = '127.0.0.1') => {
    const url = new URL(withParts(server?.url ?? '', { username: 'ada', password: 'p%40ss', search }))
    url.hostname = host
    return url.href
  }

  test('is connected to as `sslmode` requires, as libpq does', async ({ skip }) => {
    if (server === null || plain === null) return skip()
    const root = `sslrootcert=${path.join(certificates, 'ca.crt')}`
    const [withTls, without] = [server.url, plain.url]
    expect(await encryption(withTls)).toBe(false)
    expect(await encryption(`${withTls}?sslmode=disable`)).toBe(false)
    expect(await encryption(`${withTls}?sslmode=prefer`)).toBe(true)
    expect(await encryption(`${withTls}?sslmode=require`)).toBe(true)
    expect(await encryption(`${withTls}?sslmode=verify-full`)).toMatch(
      /^DATABASE_URL: the certificate of 127.0.0.1:\d+ is not trusted \(.*\): write its CA as sslrootcert=/,
    )
    expect(await encryption(`${withTls}?sslmode=require&sslrootcert=/nowhere.crt`)).toMatch(
      /^DATABASE_URL: sslrootcert cannot be read: ENOENT/,
    )
    expect(await encryption(`${withTls}?sslmode=verify-ca&${root}`)).toBe(true)
    // The certificate is valid for localhost.
    expect(await encryption(`${withTls}?sslmode=verify-full&${root}`)).toMatch(
      /certificate of 127.0.0.1:\d+ is not trusted/,
    )
    expect(await encryption(ada(`sslmode=verify-full&${root}`, 'localhost'))).toBe(true)
    expect(await encryption(`${without}?sslmode=prefer`)).toBe(false)
    expect(await encryption(`${without}?sslmode=allow`)).toBe(false)
    expect(await encryption(`${without}?sslmode=require`)).toMatch(
      /^DATABASE_URL: 127.0.0.1:\d+ does not offer TLS, which sslmode=require requires: /,
    )
    expect(await encryption(`${without}?sslmode=verify-full&sslrootcert=system`)).toMatch(/does not offer TLS/)
  })

  test('is connected to with TLS if it requires TLS, without a setting', async ({ skip }) => {
    if (server === null) return skip()
    expect(await encryption(ada())).toBe(true)
    expect(await encryption(ada('sslmode=disable'))).toMatch(/does not allow the user "ada" to connect/)
  })

  test('binds the password to the channel if that is required, and is refused if it cannot', async ({ skip }) => {
    if (server === null) return skip()
    expect(await encryption(ada('sslmode=require&channel_binding=require'))).toBe(true)
    expect(await encryption(`${server.url}?sslmode=require&channel_binding=require`)).toMatch(
      /does not support channel binding: remove channel_binding=require/,
    )
  })

  test('is connected to as the environment variables of libpq specify', async ({ skip }) => {
    if (server === null) return skip()
    const passwords = path.join(certificates, 'passwords-of-clients')
    await writeFile(passwords, '*:*:*:ada:p@ss\n', { mode: 0o600 })
    vi.stubEnv('PGPASSFILE', passwords)
    vi.stubEnv('PGSSLMODE', 'verify-full')
    vi.stubEnv('PGSSLROOTCERT', path.join(certificates, 'ca.crt'))
    const bare = new URL(ada('', 'localhost'))
    bare.password = ''
    expect(await encryption(bare.href)).toBe(true)
    vi.stubEnv('PGSSLROOTCERT', '/nowhere.crt')
    expect(await encryption(bare.href)).toMatch(/^DATABASE_URL: sslrootcert cannot be read: ENOENT/)
    vi.stubEnv('PGSERVICE', 'chat')
    expect(await refusal(bare.href)).toEqual([
      'DATABASE_URL: the environment variable PGSERVICE is not supported: unset it; write the connection parameters in the URL',
    ])
  })

  test('refuses a wrong or missing password, without revealing it', async ({ skip }) => {
    if (server === null) return skip()
    const wrong = withParts(ada(), { password: 'hidden-word' })
    expect(await refusal(wrong)).toEqual([
      'DATABASE_URL: PostgreSQL rejected the password of the user "ada": correct it, and percent-encode @ : / ? # and % in it',
    ])
    expect(await refusal(withParts(ada(), { password: '' }))).toEqual([
      'DATABASE_URL: PostgreSQL requires a password for the user "ada": put it in the URL, as postgresql://user:password@…',
    ])
  })
})
