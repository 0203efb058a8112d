import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import { skipFor } from './skip-for.ts'
import { findRedisBinary, startThrowawayRedis, type ThrowawayRedis } from './throwaway-redis.ts'

const LOCAL_SERVER = 'redis://127.0.0.1:6379'

/** A Redis for one test file, and a key prefix that nobody else uses. */
export interface TestRedis {
  url: string
  prefix: string
  /** A connection of the test's own, to look and to break things with. */
  client: Redis
  /** Removes what was written under the prefix, and the server if it was started for this file. */
  release(): Promise<void>
}

/**
 * The server of TEST_REDIS_URL, else the machine's own, else one started for this file. Null where there is none: then
 * skip the suite (`describe.skipIf(redis === null)`); it has been said on stderr, and on a CI machine it has thrown.
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

/** The server of TEST_REDIS_URL, else the machine's own; null where neither answers. */
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
  const prefix = `parley-test-${randomBytes(6).toString('hex')}:`
  return {
    url,
    prefix,
    client,
    async release() {
      if (server === null) {
        for await (const keys of client.scanStream({ match: `${prefix}*`, count: 1000 })) {
          if (keys.length > 0) await client.del(keys)
        }
      }
      client.disconnect()
      await server?.dispose()
    },
  }
}
