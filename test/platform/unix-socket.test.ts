import { connect, createServer, type Server } from 'node:net'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { openDatabase } from '../../src/platform/db.ts'
import { createTestDatabase, hasPostgres } from '../support/postgres.ts'
import { makeScratchFolder } from '../support/scratch.ts'

describe.skipIf(!hasPostgres)('a PostgreSQL behind a Unix socket', () => {
  let folder: string
  let server: Server
  let connections = 0
  let database: Awaited<ReturnType<typeof createTestDatabase>>

  /** Creates a Unix socket, as a server would have it, that forwards to the test server. */
  beforeAll(async () => {
    folder = await makeScratchFolder('parley-socket-')
    database = await createTestDatabase()
    const { hostname, port } = new URL(database.url)
    server = createServer((socket) => {
      connections += 1
      const behind = connect(Number(port || 5432), hostname)
      for (const end of [socket, behind]) end.on('error', () => {})
      socket.pipe(behind).pipe(socket)
    })
    await new Promise<void>((resolve) => server.listen(path.join(folder, '.s.PGSQL.5432'), resolve))
  })
  afterAll(async () => {
    server?.close()
    await database?.drop()
  })

  test.each(['', 'localhost'])(
    'can be used by a DATABASE_URL with the socket’s folder as host, after "%s"',
    async (host) => {
      const { username, password, pathname } = new URL(database.url)
      const account = password === '' ? username : `${username}:${password}`
      const given = `postgresql://${account}@${host}${pathname}?host=${folder}`
      const { databaseUrl: url } = readConfig({ DATABASE_URL: given })
      const before = connections
      const db = await openDatabase({ url, dataDirectory: '' })
      try {
        expect(await db.query(Prisma.sql`SELECT ${'x'}::text AS given`)).toEqual([{ given: 'x' }])
        expect(await db.prisma.entity.count()).toBe(0)
        expect(connections - before).toBeGreaterThanOrEqual(2)
      } finally {
        await db.close()
      }
    },
  )

  test('is named in the error for a URL of another form', () => {
    expect(() => readConfig({ DATABASE_URL: '/var/run/postgresql' })).toThrow('?host=/var/run/postgresql for a socket')
  })
})
