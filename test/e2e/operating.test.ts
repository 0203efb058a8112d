import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import path from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { afterEach, describe, expect, test, vi } from 'vitest'
import WebSocket from 'ws'
import { lockDirectory } from '../../src/platform/directory-lock.ts'
import { freePort } from '../support/free-port.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { createTestDataDirectory } from '../support/pglite.ts'
import { openThrowawayPostgres } from '../support/throwaway-postgres.ts'
import { startThrowawayRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'
import { hasServices, type Json } from './deployed.ts'

// A long timeout, because a dozen processes start and end here. On a busy machine, each takes seconds.
vi.setConfig({ testTimeout: 90_000 })

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

/** Runs a process that fails at startup. Returns its output and exit code. */
async function refusal(settings: Record<string, string>): Promise<{ code: number | null; lines: string[] }> {
  const parley = await startParley({ settings, untilReady: false })
  closing.push(() => parley.kill())
  const { code } = await parley.exited
  const lines = parley.output().trim().split('\n')
  await parley.kill()
  return { code, lines }
}

async function start(settings: Record<string, string> = {}): Promise<ParleyProcess> {
  const parley = await startParley({ settings })
  closing.push(() => parley.kill())
  return parley
}

async function dataDirectory(): Promise<string> {
  const directory = await createTestDataDirectory()
  closing.push(directory.remove)
  return directory.path
}

/** Opens a signed-in page. */
async function openSocket({ origin, adminToken }: ParleyProcess): Promise<WebSocket> {
  const socket = new WebSocket(`${origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
  await new Promise((resolve) => socket.once('open', resolve))
  socket.send(JSON.stringify({ type: 'connection_init', payload: { authorization: `Bearer ${adminToken}` } }))
  await new Promise((resolve) => socket.once('message', resolve))
  return socket
}

describe('a start with an invalid environment', () => {
  test('lists all invalid settings at once, and no secret', async () => {
    const { code, lines } = await refusal({
      PORT: 'http',
      PARLEY_ROLE: 'boss',
      PARLEY_ADMIN_TOKEN: 'too-short-a-secret',
      PARLEY_DELTA_MS: '-1',
      PARLEY_DEFAULT_MODEL: 'gpt-5',
      DATABASE_URL: 'mysql://somebody:hidden-word@nowhere/x',
    })
    const text = lines.join('\n')
    expect(code).toBe(1)
    const bad = ['PORT', 'PARLEY_ROLE', 'PARLEY_ADMIN_TOKEN', 'PARLEY_DELTA_MS', 'PARLEY_DEFAULT_MODEL', 'DATABASE_URL']
    for (const name of bad) expect(text).toContain(name)
    expect(text).not.toMatch(/too-short-a-secret|hidden-word/)
  })

  test('reports a busy port in one line, and leaves no files', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => other.once('listening', resolve))
    closing.push(() => new Promise((resolve) => other.close(resolve)))
    const { port } = other.address() as { port: number }
    const DATA_DIR = path.join(await dataDirectory(), 'new')
    const { code, lines } = await refusal({ PORT: String(port), DATA_DIR })
    expect(code).toBe(1)
    expect(lines).toEqual([expect.stringContaining(`PORT: 127.0.0.1:${port} is in use`)])
    expect(existsSync(DATA_DIR)).toBe(false)
  })

  test('reports a directory that cannot be created in one line', async () => {
    const file = path.join(await dataDirectory(), 'file')
    await writeFile(file, '')
    for (const DATA_DIR of [file, path.join(file, 'within')]) {
      const { code, lines } = await refusal({ DATA_DIR })
      expect(code).toBe(1)
      expect(lines).toEqual([expect.stringContaining(`DATA_DIR: ${DATA_DIR} cannot be used`)])
    }
  })

  test('reports a directory that another process uses in one line, and that process continues', async () => {
    const DATA_DIR = await dataDirectory()
    const first = await start({ DATA_DIR })
    const { code, lines } = await refusal({ DATA_DIR })
    expect(code).toBe(1)
    expect(lines).toEqual([expect.stringContaining(DATA_DIR)])
    expect((await fetch(`${first.origin}/health/ready`)).ok).toBe(true)
    await first.kill()
    // The new process acquires the lock that a dead process held.
    await start({ DATA_DIR })
  })

  test('reports an unreachable database or Redis in one line within seconds', async () => {
    const nowhere = `127.0.0.1:${await freePort()}`
    const database = await refusal({ DATABASE_URL: `postgresql://user:hidden-word@${nowhere}/x` })
    expect(database).toEqual({ code: 1, lines: [expect.stringContaining('DATABASE_URL')] })
    const redis = await refusal({ DATA_DIR: await dataDirectory(), REDIS_URL: `redis://:hidden-word@${nowhere}` })
    expect(redis).toEqual({ code: 1, lines: [expect.stringContaining('REDIS_URL')] })
    expect([...database.lines, ...redis.lines].join()).not.toContain('hidden-word')
  })
})

describe('a running process', () => {
  test('closes its sockets with 1001 on SIGTERM and exits with 0; the next start finds all data', async () => {
    const DATA_DIR = await dataDirectory()
    const parley = await start({ DATA_DIR })
    const ask = (origin: string, query: string) =>
      fetch(`${origin}/graphql`, {
        method: 'POST',
        headers: { authorization: `Bearer ${parley.adminToken}`, 'content-type': 'application/json' },
        body: JSON.stringify({ query }),
      }).then((response) => response.json() as Promise<Json>)
    const made = await ask(
      parley.origin,
      'mutation { createHuman(input: { name: "Ada" }) { ... on CreateHumanPayload { human { id } } } }',
    )
    const socket = await openSocket(parley)
    const closed = new Promise((resolve) => socket.once('close', resolve))
    expect(await parley.stop()).toBe(0)
    expect(await closed).toBe(1001)
    const next = await start({ DATA_DIR })
    const found = await ask(next.origin, `{ node(id: "${made.data.createHuman.human.id}") { ... on Human { name } } }`)
    expect(found).toEqual({ data: { node: { name: 'Ada' } } })
  })

  test('prints where to sign in, and with which token, if it listens on all addresses', async () => {
    const DATA_DIR = await dataDirectory()
    const file = path.join(DATA_DIR, 'admin-token')
    // An earlier start has generated the token.
    await writeFile(file, 'the-token-of-an-earlier-start-0123456789')
    const parley = await start({ DATA_DIR, HOST: '0.0.0.0', PARLEY_ADMIN_TOKEN: '' })
    await until('the addresses are printed', () => parley.output().includes('  model '))
    const { port } = new URL(parley.origin)
    const lines = parley.output().split('\n')
    expect(lines).toContain(`  sign in   open http://localhost:${port}/ and sign in with the token in ${file}`)
    expect(parley.output()).not.toContain('the-token-of-an-earlier-start')
  })

  test('warns at startup of unbounded settings, without secrets', async () => {
    const secret = 'hidden-word'.repeat(4)
    const { output } = await start({ AUTH_JWT_SECRET: secret, AUTH_ALLOW_UNBOUNDED: 'true' })
    const warnings = output()
      .split('\n')
      .flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as { level: number; msg: string }] : []))
      .filter(({ level }) => level === 40)
    expect(warnings.map(({ msg }) => msg)).toContainEqual(
      expect.stringMatching(/^AUTH_ALLOW_UNBOUNDED: the server accepts JWTs that never/),
    )
    expect(output()).not.toContain('hidden-word')
  })

  test.each([
    ['npm alone, as a supervisor sends it', (pid: number) => process.kill(pid, 'SIGTERM')],
    ['npm and all that it started, as a terminal does', (pid: number) => process.kill(-pid, 'SIGINT')],
  ])('started by npm, it drains on a signal to %s', async (_, signal) => {
    const DATA_DIR = await dataDirectory()
    const parley = await startParley({ settings: { DATA_DIR }, byNpm: true })
    closing.push(() => parley.kill())
    const socket = await openSocket(parley)
    const closed = new Promise((resolve) => socket.once('close', resolve))
    signal(parley.pid)
    expect(await closed).toBe(1001)
    expect((await parley.exited).code).toBe(0)
    await expect(fetch(parley.origin)).rejects.toThrow('fetch failed')
    lockDirectory(DATA_DIR)()
  })

  test.skipIf(!hasServices)(
    'is not ready while PostgreSQL or Redis is away, and recovers',
    { timeout: 60_000 },
    async ({ skip }) => {
      const postgres = await openThrowawayPostgres()
      if (postgres === null) return skip()
      const redis = await startThrowawayRedis()
      closing.push(
        () => postgres.dispose(),
        () => redis.dispose(),
      )
      const parley = await start({ DATABASE_URL: postgres.url, REDIS_URL: redis.url, PARLEY_LOG_LEVEL: 'silent' })
      const ready = async () => {
        const response = await fetch(`${parley.origin}/health/ready`)
        const { database, realtime } = (await response.json()) as { database: boolean; realtime: boolean }
        return { status: response.status, database, realtime }
      }
      const answer = (status: number, database: boolean, realtime: boolean) =>
        until(`it answers ${status}`, async () => isDeepStrictEqual(await ready(), { status, database, realtime }), {
          timeoutMs: 30_000,
        })
      await redis.kill()
      await answer(503, true, false)
      await redis.start()
      await answer(200, true, true)
      await postgres.stop('immediate')
      await answer(503, false, true)
      expect((await fetch(`${parley.origin}/health/live`)).status).toBe(200)
      await postgres.start()
      await answer(200, true, true)
      expect(await parley.stop()).toBe(0)
    },
  )
})
