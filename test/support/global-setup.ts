import { dropLeftBehind, findPostgres } from './postgres.ts'
import { findRedis } from './redis.ts'
import { removeLeftBehind } from './scratch.ts'
import { skipFor } from './skip-for.ts'
import { openThrowawayPostgres, type ThrowawayPostgres } from './throwaway-postgres.ts'
import { findRedisBinary } from './throwaway-redis.ts'

let started: ThrowawayPostgres | null = null

/**
 * Finds the PostgreSQL server of this run (TEST_DATABASE_URL, else 127.0.0.1:5432) or starts one, and passes its URL to the test
 * files as TEST_DATABASE_URL. Most tests on PostgreSQL run on Redis too, so without a Redis the variable is removed: the files
 * skip what needs either of them. On a CI machine a missing server fails the run.
 */
export async function setup(): Promise<void> {
  await removeLeftBehind()
  if ((await findRedis()) === null && findRedisBinary() === null) {
    skipFor(
      'No Redis here (TEST_REDIS_URL, 127.0.0.1:6379, or the program redis-server), which tests on PostgreSQL need too',
    )
    delete process.env.TEST_DATABASE_URL
    return
  }
  const found = await findPostgres()
  if (found !== null) {
    process.env.TEST_DATABASE_URL = found
    await dropLeftBehind(found)
    return
  }
  started = await openThrowawayPostgres()
  if (started !== null) process.env.TEST_DATABASE_URL = started.url
}

export async function teardown(): Promise<void> {
  await started?.dispose()
}
