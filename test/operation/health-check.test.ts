import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { healthCheck, imageEnv } from '../support/image.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { canStartRedis, startThrowawayRedis, type ThrowawayRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'

/** Runs the health check command of the image as its container would, for a server on a port. Returns the exit code. */
function check(port: number): Promise<number> {
  const [program, ...given] = healthCheck
  expect(program).toBe('node')
  const env = { ...imageEnv, PORT: String(port) }
  return new Promise((resolve, reject) => {
    const child = execFile(process.execPath, given, { env }, () => {
      if (child.exitCode === null) reject(new Error(`it was ended by ${child.signalCode}`))
      else resolve(child.exitCode)
    })
  })
}

describe.skipIf(!hasPostgres || !canStartRedis())('the image’s health check, while Redis is unreachable', () => {
  let redis: ThrowawayRedis
  let parley: TestServer

  beforeAll(async () => {
    redis = await startThrowawayRedis()
    const settings = { REDIS_URL: redis.url, PARLEY_ROLE: 'api' }
    parley = await startTestServer({ stack: 'postgres', worker: false, settings })
  })
  afterAll(async () => {
    await parley?.close()
    await redis?.dispose()
  })

  async function readiness() {
    const answer = await fetch(`${parley.origin}/health/ready`)
    return [answer.status, await answer.json()]
  }

  test('passes while the process itself reports that it is not ready', async () => {
    await until('it is ready', async () => (await readiness())[0] === 200)
    expect(await check(parley.server.port)).toBe(0)
    await redis.kill()
    await until('it is not ready', async () => (await readiness())[0] === 503)
    expect(await readiness()).toEqual([503, { status: 'unavailable', database: true, realtime: false }])
    expect(await check(parley.server.port)).toBe(0)
    await redis.start()
    await until('it is ready again', async () => (await readiness())[0] === 200)
    expect(await check(parley.server.port)).toBe(0)
  })
})

describe('the image’s health check', () => {
  test('fails for an error response and for no response', async () => {
    const asked: (string | undefined)[] = []
    const server = createServer(({ url }, response) => {
      asked.push(url)
      response.writeHead(503).end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    expect(await check(port)).toBe(1)
    expect(asked).toEqual(['/health/live'])
    await new Promise((resolve) => server.close(resolve))
    expect(await check(port)).toBe(1)
  })

  test('is the one that compose uses for each Parley process except the migration', () => {
    const text = readFileSync(path.resolve(import.meta.dirname, '../../docker-compose.yml'), 'utf8')
    const { services } = parse(text, { merge: true }) as { services: Record<string, { image: string }> }
    const own = Object.entries(services).filter(([, { image }]) => image === 'parley')
    expect(own.filter(([, service]) => !('healthcheck' in service)).map(([name]) => name)).toEqual(['api', 'worker'])
    expect(services['migrate']).toMatchObject({ healthcheck: { disable: true } })
  })
})
