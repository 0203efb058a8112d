import { dropLeftBehind, findPostgres } from './postgres.ts'
import { removeLeftBehind } from './scratch.ts'
import { openThrowawayPostgres, type ThrowawayPostgres } from './throwaway-postgres.ts'

let started: ThrowawayPostgres | null = null

/**
 * Finds the PostgreSQL server of this run (TEST_DATABASE_URL, else 127.0.0.1:5432) or starts one, and hands its URL to the test
 * files as TEST_DATABASE_URL. Without one, what needs it is skipped with one loud line; on a CI machine that is a failure.
 */
export async function setup(): Promise<void> {
  await removeLeftBehind()
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
