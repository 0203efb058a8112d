import pg from 'pg'
import { createTestDatabase } from '../../test/support/postgres.ts'
import { now } from './model.ts'

const COMMITS = 2000

/** Measures the machine's PostgreSQL without Parley: commits of one row each, `atOnce` of them concurrently; times in ms. */
export async function measureCommits(atOnce: number): Promise<{ aSecond: number; times: number[] }> {
  const database = await createTestDatabase({ isDurable: true })
  const pool = new pg.Pool({ connectionString: database.url, max: atOnce })
  // Dropping the database also ends connections that are still closing.
  pool.on('error', () => {})
  const times: number[] = []
  try {
    await pool.query('CREATE TABLE reference (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text NOT NULL)')
    let left = COMMITS
    const lane = async () => {
      while (left-- > 0) {
        const startedAt = now()
        await pool.query('INSERT INTO reference (text) VALUES ($1)', ['Hello there, what do you see?'])
        times.push(now() - startedAt)
      }
    }
    const startedAt = now()
    await Promise.all(Array.from({ length: atOnce }, lane))
    return { aSecond: (COMMITS / (now() - startedAt)) * 1000, times }
  } finally {
    await pool.end()
    await database.drop()
  }
}
