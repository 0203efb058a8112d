import { dropLeftBehind, findPostgres } from './postgres.ts'
import { removeLeftBehind } from './scratch.ts'
import { findPostgresBinaries, startThrowawayPostgres, type ThrowawayPostgres } from './throwaway-postgres.ts'

let started: ThrowawayPostgres | undefined

/**
 * Finds or starts the PostgreSQL server of this run and hands its URL to the test files as TEST_DATABASE_URL. One of its own,
 * with its files in memory, makes a database in a tenth of the time that a lasting one on a disk takes.
 * Without any, what needs it is skipped with one loud line; on a CI machine that is a failure.
 */
export async function setup(): Promise<void> {
  await removeLeftBehind()
  if (!process.env.TEST_DATABASE_URL && findPostgresBinaries() !== null) {
    started = await startThrowawayPostgres()
    process.env.TEST_DATABASE_URL = started.url
    return
  }
  const found = await findPostgres()
  if (found !== null) {
    process.env.TEST_DATABASE_URL = found
    await dropLeftBehind(found)
    return
  }
  const message = 'No PostgreSQL here (TEST_DATABASE_URL, the binaries initdb and postgres, or 127.0.0.1:5432)'
  if (process.env.CI === 'true') throw new Error(`${message}, and on CI its tests must run`)
  console.warn(`\n!!! ${message}: its tests are SKIPPED.\n`)
}

export async function teardown(): Promise<void> {
  await started?.dispose()
}
