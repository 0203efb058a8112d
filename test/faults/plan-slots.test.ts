import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createAgents } from '../../src/agents/agents.ts'
import { readConfig } from '../../src/config.ts'
import { type Jobs, openJobs } from '../../src/jobs/jobs.ts'
import { createPlans } from '../../src/plans/plans.ts'
import { type Database, openDatabase } from '../../src/platform/db.ts'
import type { Platform } from '../../src/platform/platform.ts'
import { isNightly, runsOf } from '../support/effort.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { createTestDatabase, hasPostgres, type TestDatabase } from '../support/postgres.ts'
import { canStartRedis, startThrowawayRedis, type ThrowawayRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'

const SLOTS = runsOf({ usual: 24, nightly: 60 })
/**
 * The numbers of firings after which processes are killed: the two in turn, and once both at the same time. The long form of
 * the test repeats each of these.
 */
const KILLS: [count: number, which: number[]][] = [
  [5, [0]],
  [11, [1]],
  [17, [0, 1]],
]
if (isNightly) KILLS.push([40, [0]], [50, [1]])

describe.skipIf(!hasPostgres || !canStartRedis())(`${SLOTS} one-second slots over two processes`, () => {
  let database: TestDatabase
  let redis: ThrowawayRedis
  let db: Database
  let jobs: Jobs
  let settings: Record<string, string>
  const workers: ParleyProcess[] = []

  beforeAll(async () => {
    ;[database, redis] = await Promise.all([createTestDatabase(), startThrowawayRedis()])
    settings = {
      DATABASE_URL: database.url,
      REDIS_URL: redis.url,
      PARLEY_ROLE: 'worker',
      PARLEY_SECRET_KEY: 'a-secret-key-for-tests-of-32-or-more',
      PARLEY_LOG_LEVEL: 'error',
    }
    db = await openDatabase({ url: database.url, dataDirectory: '', poolSize: 3 })
    jobs = await openJobs(db, { supervise: false, onError: (error) => console.error(error) })
    workers.push(...(await Promise.all([startParley({ settings }), startParley({ settings })])))
  })
  afterAll(async () => {
    await Promise.all(workers.map((worker) => worker.kill()))
    await jobs?.close()
    await db?.close()
    await Promise.all([database?.drop(), redis?.dispose()])
  })

  /** Creates a plan for each of the next seconds, from two seconds from now on. */
  async function setPlans(): Promise<string[]> {
    const platform = {
      db,
      jobs,
      config: readConfig({}),
      clock: { now: () => Date.now() },
    } as unknown as Platform // The fields that agents and plans require.
    const models = {
      check: () => null,
      isLocal: () => false,
      defaultModel: async () => 'demo',
      lookFor: async () => {},
    }
    const agent = await createAgents(platform, { models }).create(
      { scope: 'ADMIN', id: 'acc_test', tokenId: null, expiresAt: null },
      {
        name: 'Clock',
        instructions: '',
        mind: 'STATELESS',
        toolset: 'ACTIVE_SPACE',
        model: 'demo',
        maxConcurrentRuns: 20,
      },
    )
    const first = Math.ceil(Date.now() / 1000) * 1000 + 1000
    const plans = Array.from({ length: SLOTS }, (_, index) => ({
      name: `second ${index}`,
      instruction: 'Tick.',
      at: new Date(first + index * 1000),
    }))
    return (await createPlans(platform).setOwn(agent.id, plans)).map(({ id }) => id)
  }

  async function killAndReplace(which: number[]): Promise<void> {
    await Promise.all(which.map((index) => workers[index]?.kill()))
    await Promise.all(
      which.map(async (index) => {
        workers[index] = await startParley({ settings })
      }),
    )
  }

  test('fire once each, never early, while the processes are killed; and every run ends', {
    timeout: 180_000,
  }, async () => {
    const planIds = await setPlans()
    const fired = () => db.prisma.planFiring.count()
    for (const [count, which] of KILLS) {
      await until(`${count} slots have fired`, async () => (await fired()) >= count, { timeoutMs: 60_000 })
      await killAndReplace(which)
    }
    await until('all slots have fired', async () => (await fired()) >= SLOTS, { timeoutMs: 60_000 })
    const firings = await db.prisma.planFiring.findMany()
    expect(firings.map(({ planId }) => planId).sort()).toEqual([...planIds].sort())
    expect(firings.filter(({ slot, firedAt }) => firedAt < slot)).toEqual([])
    const over = { status: { in: ['COMPLETED' as const] } }
    await until('every run is over', async () => (await db.prisma.run.count({ where: over })) === SLOTS, {
      timeoutMs: 60_000,
    })
    const runs = await db.prisma.run.findMany({ select: { dedupKey: true } })
    const expected = firings.map(({ planId, slot }) => `${planId}:${slot.toISOString()}`)
    expect(runs.map(({ dedupKey }) => dedupKey).sort()).toEqual(expected.sort())
  })
})
