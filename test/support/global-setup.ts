import { dropLeftBehind, findPostgres } from './postgres.ts'
import { removeLeftBehind } from './scratch.ts'
import { findPostgresBinaries, startThrowawayPostgres, type ThrowawayPostgres } from './throwaway-postgres.ts'

let started: ThrowawayPostgres | undefined

/**
 * Finds or starts the PostgreSQL server of this run and hands its URL to the test files as TEST_DATABASE_URL.
 * Without one, what needs it is skipped with one loud line; on a CI machine that is a failure.
 */
export async function setup(): Promise<void> {
  await removeLeftBehind()
  const found = await findPostgres()
  if (found !== null) {
    process.env.TEST_DATABASE_URL = found
    await dropLeftBehind(found)
    return
  }
  if (findPostgresBinaries() === null) {
    const message = 'No PostgreSQL here (TEST_DATABASE_URL, 127.0.0.1:5432, or the binaries initdb and postgres)'
    if (process.env.CI === 'true') throw new Error(`${message}, and on CI its tests must run`)
    console.warn(`\n!!! ${message}: its tests are SKIPPED.\n`)
    return
  }
  started = await startThrowawayPostgres()
  process.env.TEST_DATABASE_URL = started.url
}

export async function teardown(): Promise<void> {
  await started?.dispose()
}
