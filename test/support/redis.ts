import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import { runId } from './run-id.ts'
import { skipFor } from './skip-for.ts'
import { findRedisBinary, startThrowawayRedis, type ThrowawayRedis } from './throwaway-redis.ts'

const LOCAL_SERVER = 'redis://127.0.0.1:6379'

/** A Redis for one test file, with a unique key prefix. */
export interface TestRedis {
  url: string
  prefix: string
  /** A separate connection with which the test inspects and breaks things. */
  client: Redis
  /** Removes the keys under the prefix, and stops the server if it was started for this file. */
  release(): Promise<void>
}

/**
 * Returns the server of TEST_REDIS_URL, or else the machine's own, or else one started for this file; null if there is none.
 * Then skip the suite with `describe.skipIf(redis === null)`; a warning has been printed to stderr. @throws on a CI machine if
 * there is none
 */
export async function openTestRedis(): Promise<TestRedis | null> {
  const url = await findRedis()
  if (url !== null) return testRedis(url, null)
  if (findRedisBinary() !== null) {
    const server = await startThrowawayRedis()
    return testRedis(server.url, server)
  }
  skipFor('No Redis here (TEST_REDIS_URL, 127.0.0.1:6379, or the program redis-server)')
  return null
}

/** Returns the server of TEST_REDIS_URL, or else the machine's own; null if neither responds. */
export async function findRedis(): Promise<string | null> {
  const named = process.env.TEST_REDIS_URL
  const url = named || LOCAL_SERVER
  const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null, connectTimeout: 5000 })
  client.on('error', () => {})
  try {
    await client.ping()
    return url
  } catch (error) {
    if (named) throw new Error('TEST_REDIS_URL is set, but nothing answers there', { cause: error })
    return null
  } finally {
    client.disconnect()
  }
}

function testRedis(url: string, server: ThrowawayRedis | null): TestRedis {
  const client = new Redis(url)
  client.on('error', () => {})
  const prefix = `parley-test-${runId()}-${randomBytes(6).toString('hex')}:`
  return {
    url,
    prefix,
    client,
    async release() {
      if (server === null) await deleteMatching(client, `${prefix}*`)
      client.disconnect()
      await server?.dispose()
    },
  }
}

/** Deletes the keys that tests of this run have not released. */
export async function deleteKeys(url: string): Promise<void> {
  const client = new Redis(url)
  await deleteMatching(client, `parley-test-${runId()}-*`)
  client.disconnect()
}

async function deleteMatching(client: Redis, match: string): Promise<void> {
  for await (const keys of client.scanStream({ match, count: 1000 })) {
    if (keys.length > 0) await client.unlink(keys)
  }
}
