import { randomBytes } from 'node:crypto'
import { dropDatabases, dropLeftBehind, findPostgres } from './postgres.ts'
import { deleteKeys, findRedis } from './redis.ts'
import { removeLeftBehind, removeOldCompiledCode, removeScratchFolders } from './scratch.ts'
import { skipFor } from './skip-for.ts'
import { openThrowawayPostgres, type ThrowawayPostgres } from './throwaway-postgres.ts'
import { findRedisBinary, startThrowawayRedis, type ThrowawayRedis } from './throwaway-redis.ts'

let postgres: ThrowawayPostgres | null = null
let redis: ThrowawayRedis | null = null

/**
 * Finds the PostgreSQL and Redis servers for this run (TEST_DATABASE_URL and TEST_REDIS_URL, or else the standard ports), or
 * starts them. Passes their URLs to the test files in these variables. Most tests on PostgreSQL also need Redis. So if there is
 * no Redis, TEST_DATABASE_URL is removed, and the test files skip tests that need either. On a CI machine, a missing server
 * fails the run.
 */
export async function setup(): Promise<void> {
  process.env['TEST_RUN'] = randomBytes(4).toString('hex')
  removeOldCompiledCode()
  await removeLeftBehind()
  const redisUrl = await findRedis()
  if (redisUrl === null && findRedisBinary() === null) {
    skipFor(
      'No Redis here (TEST_REDIS_URL, 127.0.0.1:6379, or the program redis-server), which tests on PostgreSQL need too',
    )
    delete process.env.TEST_DATABASE_URL
    return
  }
  if (redisUrl === null) redis = await startThrowawayRedis()
  process.env.TEST_REDIS_URL = redisUrl ?? redis?.url
  const found = await findPostgres()
  if (found !== null) {
    process.env.TEST_DATABASE_URL = found
    await dropLeftBehind(found)
    return
  }
  postgres = await openThrowawayPostgres()
  if (postgres !== null) process.env.TEST_DATABASE_URL = postgres.url
}

/** Removes what this run leaves behind. Workers end together with the applications that they keep for other files. */
export async function teardown(): Promise<void> {
  const { TEST_DATABASE_URL, TEST_REDIS_URL } = process.env
  if (postgres !== null) await postgres.dispose()
  else if (TEST_DATABASE_URL) await dropDatabases(TEST_DATABASE_URL)
  if (redis !== null) await redis.dispose()
  else if (TEST_REDIS_URL) await deleteKeys(TEST_REDIS_URL)
  await removeScratchFolders()
}
