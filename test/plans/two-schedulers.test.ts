import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ClaimedJob, type Jobs, openJobs } from '../../src/jobs/jobs.ts'
import { FIRE_PLAN } from '../../src/jobs/queues.ts'
import { openDatabase } from '../../src/platform/db.ts'
import type { Platform } from '../../src/platform/platform.ts'
import { type Domain, openDomain } from '../support/domain.ts'
import { runsOf } from '../support/effort.ts'
import { createPlanning, type Planning } from '../support/planning.ts'
import { hasPostgres } from '../support/postgres.ts'

const MINUTE_MS = 60_000
const START = Date.parse('2030-01-01T00:00:30Z')
const PLANS = 25
/** 100 slots, or 1,000 in the long form. */
const MINUTES = runsOf({ usual: 4, nightly: 40 })

/** How a process treats a job that it has claimed. */
const FATES = ['works', 'works', 'works', 'works twice', 'dies before', 'dies after'] as const

/** Returns numbers in [0, 1), the same in every run. Source: mulberry32, public domain. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

interface Scheduler {
  planning: Planning
  jobs: Jobs
  close(): Promise<void>
}

describe.skipIf(!hasPostgres)(`${PLANS * MINUTES} slots over two schedulers`, () => {
  let domain: Domain
  let now = START
  const schedulers: Scheduler[] = []

  /** Creates a scheduler as a separate process: with its own connections, its own queue, and a clock that is this much behind. */
  async function openScheduler(behindMs: number): Promise<Scheduler> {
    const [here] = await domain.platform.db.prisma.$queryRaw<{ name: string }[]>`SELECT current_database() AS name`
    const url = new URL(here?.name ?? '', process.env.TEST_DATABASE_URL).href
    const db = await openDatabase({ url, dataDirectory: '', poolSize: 5 })
    const jobs = await openJobs(db, { supervise: false, onError: (error) => console.error(error) })
    const platform: Platform = { ...domain.platform, db, jobs, clock: { now: () => now - behindMs } }
    const close = async () => {
      await jobs.close()
      await db.close()
    }
    return { planning: createPlanning(platform, () => now), jobs, close }
  }

  /** pg-boss reads the time of the queue through this function, so inject the clock here, too. */
  async function moveTo(time: number): Promise<void> {
    now = time
    await domain.platform.db.prisma.$executeRawUnsafe(`
      CREATE OR REPLACE FUNCTION pgboss.job_now() RETURNS timestamptz LANGUAGE sql STABLE
      AS $$ SELECT '${new Date(time).toISOString()}'::timestamptz $$`)
  }

  beforeAll(async () => {
    domain = await openDomain()
    schedulers.push(await openScheduler(0), await openScheduler(1500))
    await moveTo(START)
  })
  afterAll(async () => {
    await Promise.all(schedulers.map((scheduler) => scheduler.close()))
    await domain.close()
  })

  async function handle({ planning, jobs }: Scheduler, job: ClaimedJob, fate: (typeof FATES)[number]): Promise<void> {
    const { planId } = FIRE_PLAN.input.parse(job.data)
    const fire = () =>
      planning.firing.fire(planId, {
        async complete(tx) {
          await jobs.complete(FIRE_PLAN, job, tx)
        },
      })
    if (fate === 'works') return fire()
    if (fate === 'works twice') await Promise.all([fire(), planning.firing.fire(planId)])
    if (fate === 'dies after') await planning.firing.fire(planId)
    // Does what pg-boss does with the job of a dead process.
    await jobs.fail(FIRE_PLAN, job, new Error('The process has died.'))
  }

  /** Runs the jobs of the queue until every slot up to now has fired. On the way, loses and repeats jobs. */
  async function serve(scheduler: Scheduler, random: () => number, isDone: () => Promise<boolean>): Promise<void> {
    const pick = (count: number) => Math.floor(random() * count)
    const { prisma } = domain.platform.db
    while (!(await isDone())) {
      const claimed = await scheduler.jobs.claim(FIRE_PLAN, 1 + pick(8))
      await Promise.all(claimed.map((job) => handle(scheduler, job, FATES[pick(FATES.length)] ?? 'works')))
      if (pick(5) === 0) await scheduler.planning.firing.restore()
      // Skips the delay after a failed attempt.
      await prisma.$executeRaw`UPDATE pgboss.job SET start_after = pgboss.job_now() WHERE state = 'retry'`
      // Sometimes a job is lost.
      if (pick(20) === 0)
        await prisma.$executeRaw`
          DELETE FROM pgboss.job WHERE id IN (SELECT id FROM pgboss.job WHERE state = 'created' LIMIT 1 FOR UPDATE SKIP LOCKED)`
    }
  }

  test('fire exactly once each, while jobs are lost, late, early and duplicated', {
    timeout: 120_000,
  }, async () => {
    const { prisma } = domain.platform.db
    const [first] = schedulers as [Scheduler]
    const agents = await Promise.all(Array.from({ length: 5 }, (_, index) => domain.agent(`Agent ${index}`)))
    const planIds: string[] = []
    for (let index = 0; index < PLANS; index++) {
      const plan = { name: `plan ${index}`, instruction: 'Go.', cron: '* * * * *' }
      const [made] = await first.planning.plans.setOwn(agents[index % agents.length]?.id ?? '', [plan])
      planIds.push(made?.id ?? '')
    }
    for (let minute = 1; minute <= MINUTES; minute++) {
      await moveTo(START - 30_000 + minute * MINUTE_MS + (minute % 3) * 1000)
      const isDone = async () => (await prisma.planFiring.count()) >= PLANS * minute
      await Promise.all(
        schedulers.map((scheduler, index) => serve(scheduler, createRandom(minute * 2 + index), isDone)),
      )
    }
    const firings = await prisma.planFiring.findMany({ orderBy: [{ planId: 'asc' }, { slot: 'asc' }] })
    const slots = Array.from({ length: MINUTES }, (_, index) => START - 30_000 + (index + 1) * MINUTE_MS)
    const expected = [...planIds]
      .sort()
      .flatMap((planId) => slots.map((slot) => `${planId}:${new Date(slot).toISOString()}`))
    expect(firings.map(({ planId, slot }) => `${planId}:${slot.toISOString()}`)).toEqual(expected)
    const runs = await prisma.run.findMany({ select: { dedupKey: true, rootId: true } })
    expect(runs.map(({ dedupKey }) => dedupKey).sort()).toEqual([...expected].sort())
    expect(runs.map(({ rootId }) => rootId).sort()).toEqual(firings.map(({ rootId }) => rootId).sort())
  })
})
