import pg from 'pg'
import { createAgents } from '../src/agents/agents.ts'
import { readConfig } from '../src/config.ts'
import { openDatabase } from '../src/platform/db.ts'
import type { Platform } from '../src/platform/platform.ts'
import { startParley } from '../test/support/parley-process.ts'
import { createTestDatabase } from '../test/support/postgres.ts'
import type { Benchmark } from './support/figures.ts'
import { residentMebibytesOf } from './support/stack.ts'

const AGENTS = 1000
const SETTLE_SECONDS = 10
const WATCHED_SECONDS = 15

interface Resting {
  mebibytes: number
  transactionsASecond: number
}

async function putToBed(url: string, count: number): Promise<void> {
  const db = await openDatabase({ url, dataDirectory: '', poolSize: 3 })
  const platform = { db, config: readConfig({}), clock: { now: () => Date.now() } } as unknown as Platform
  const models = { check: () => null, isLocal: () => false, defaultModel: async () => 'demo', lookFor: async () => {} }
  const agents = createAgents(platform, { models })
  const admin = { scope: 'ADMIN' as const, id: 'acc_bench', tokenId: null, expiresAt: null }
  const input = { instructions: 'Sleep.', mind: 'PERSISTENT' as const, toolset: 'ACTIVE_SPACE' as const, model: 'demo' }
  for (let n = 0; n < count; n++) await agents.create(admin, { ...input, name: `Sleeper ${n}` })
  await db.close()
}

/** Starts a process with that many idle agents, and measures it. */
async function rest(count: number): Promise<Resting> {
  const database = await createTestDatabase({ isDurable: true })
  await putToBed(database.url, count)
  const redis = process.env.TEST_REDIS_URL || 'redis://127.0.0.1:6379'
  const parley = await startParley({
    settings: { DATABASE_URL: database.url, REDIS_URL: redis, PARLEY_LOG_LEVEL: 'error' },
  })
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  const transactions = async () => {
    await client.query('SELECT pg_stat_clear_snapshot()')
    const { rows } = await client.query(
      'SELECT (xact_commit + xact_rollback)::int AS count FROM pg_stat_database WHERE datname = current_database()',
    )
    return rows[0].count as number
  }
  const pause = (seconds: number) => new Promise((resolve) => setTimeout(resolve, seconds * 1000))
  await pause(SETTLE_SECONDS)
  const before = await transactions()
  await pause(WATCHED_SECONDS)
  const transactionsASecond = ((await transactions()) - before) / WATCHED_SECONDS
  const mebibytes = await residentMebibytesOf(parley.pid)
  await client.end()
  await parley.stop()
  await database.drop()
  return { mebibytes, transactionsASecond }
}

export const sleeping: Benchmark = {
  question: `What do ${AGENTS.toLocaleString('en')} persistent agents cost a process while they sleep, on PostgreSQL and Redis?`,
  async run() {
    const none = await rest(0)
    const many = await rest(AGENTS)
    return [
      { what: 'resident without agents', value: none.mebibytes, unit: 'MiB' },
      {
        what: `more with ${AGENTS.toLocaleString('en')} asleep`,
        value: many.mebibytes - none.mebibytes,
        unit: 'MiB',
        bound: { atMost: 19 },
        source: '20 MB',
      },
      {
        what: 'transactions of its database, without agents',
        value: none.transactionsASecond,
        unit: '/s',
        bound: { atMost: 2 },
      },
      {
        what: `more with ${AGENTS.toLocaleString('en')} asleep`,
        value: many.transactionsASecond - none.transactionsASecond,
        unit: '/s',
        bound: { atMost: 0.5 },
      },
    ]
  },
}
