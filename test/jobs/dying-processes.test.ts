import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { notifyColumns } from '../../src/agents/notify-secret.ts'
import { createNotifying } from '../../src/engine/notifying.ts'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { enqueueSql } from '../../src/jobs/enqueue-sql.ts'
import { type BoundJob, bindJob } from '../../src/jobs/job.ts'
import { type Jobs, openJobs } from '../../src/jobs/jobs.ts'
import { FIRE_PLAN, SEND_NOTICE } from '../../src/jobs/queues.ts'
import { startJobWorker } from '../../src/jobs/worker.ts'
import { newId } from '../../src/lib/ids.ts'
import { openDatabase } from '../../src/platform/db.ts'
import type { Platform } from '../../src/platform/platform.ts'
import { type Domain, openDomain } from '../support/domain.ts'
import { isNightly, sampleOf } from '../support/effort.ts'
import { createFrailty, PASSES } from '../support/frail.ts'
import { createPlanning } from '../support/planning.ts'
import { hasPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

/** A worker sends between eight and sixteen statements until its job is done: polls, the claim, and the work. */
const STATEMENTS = Array.from({ length: isNightly ? 16 : 8 }, (_, index) => index + 1)

describe.skipIf(!hasPostgres)('a process that dies after any statement', () => {
  let domain: Domain
  let platform: Platform
  let jobs: Jobs

  beforeAll(async () => {
    domain = await openDomain()
    jobs = await openJobs(domain.platform.db, { supervise: false, onError: (error) => console.error(error) })
    platform = { ...domain.platform, jobs, publicUrl: { forReader: () => null } as never }
  })
  afterAll(async () => {
    await jobs?.close()
    await domain?.close()
  })

  /** Runs jobs in a process that dies after its n-th statement, and then in a process that survives, until no job is left. */
  async function dieAfter(n: number, bind: (platform: Platform) => BoundJob): Promise<boolean> {
    const [here] = await platform.db.prisma.$queryRaw<{ name: string }[]>`SELECT current_database() AS name`
    const frailty = createFrailty()
    const url = frailty.mark({
      DATABASE_URL: new URL(here?.name ?? '', process.env.TEST_DATABASE_URL).href,
    }).DATABASE_URL
    const db = await openDatabase({ url: url ?? '', dataDirectory: '', poolSize: 3 })
    const frail: Platform = { ...platform, db, jobs: await openJobs(db, { supervise: false, onError: () => {} }) }
    frailty.watch(({ n: at }) => (at === n ? { type: 'dies' } : PASSES))
    const dying = await startJobWorker(frail, [bind(frail)])
    const isDone = async () =>
      (await platform.db.prisma.$queryRaw<unknown[]>`SELECT 1 FROM pgboss.job WHERE state < 'completed'`).length === 0
    await Promise.race([frailty.death, until('all is done', isDone)])
    const hasDied = frailty.isDead()
    if (!hasDied) {
      await dying.close()
      await frail.jobs.close()
      await db.close()
    }
    // The last statement of the process can still be executing.
    const backends = () => platform.db.prisma.$queryRaw<unknown[]>`
      SELECT 1 FROM pg_stat_activity WHERE application_name = ${frailty.name}`
    await until('its connections have ended', async () => (await backends()).length === 0)
    const [{ now: diedBefore } = { now: new Date() }] = await platform.db.prisma.$queryRaw<{ now: Date }[]>`
      SELECT clock_timestamp() AS now`
    /** Does what pg-boss does when it misses the heartbeats of a process, without the delay. */
    async function lapse() {
      const lapsed = await platform.db.prisma.$queryRaw<{ name: string; id: string; retryCount: number }[]>`
        SELECT name, id::text, retry_count AS "retryCount" FROM pgboss.job
        WHERE state = 'active' AND started_on <= ${diedBefore}`
      for (const { name, id, retryCount } of lapsed) {
        const kind = name === FIRE_PLAN.name ? FIRE_PLAN : SEND_NOTICE
        await jobs.fail(kind, { id, retryCount, retryLimit: 30, data: null }, new Error('job heartbeat timeout'))
      }
      await platform.db.prisma.$executeRaw`UPDATE pgboss.job SET start_after = now() WHERE state = 'retry'`
    }
    await lapse()
    const living = await startJobWorker(platform, [bind(platform)])
    await until(`all is done after a death at statement ${n}`, async () => {
      await lapse()
      return isDone()
    })
    await living.close()
    return hasDied
  }

  test('fires the slot of a plan once', { timeout: 120_000 }, async () => {
    const { prisma } = platform.db
    let deaths = 0
    for (const n of sampleOf(STATEMENTS, 3)) {
      await prisma.$executeRaw`DELETE FROM pgboss.job`
      const agent = await domain.agent(`Agent ${n}`)
      const { plans } = createPlanning(platform, () => Date.now())
      const [plan] = await plans.setOwn(agent.id, [{ name: 'Once', instruction: 'Go.', afterSeconds: 1 }])
      const due = new Date(Date.now() - 1000)
      await prisma.plan.update({ where: { id: plan?.id ?? '' }, data: { nextRunAt: due } })
      await prisma.$executeRaw`UPDATE pgboss.job SET start_after = ${due}`
      const hasDied = await dieAfter(n, (of) => {
        const { firing } = createPlanning(of, () => Date.now())
        return bindJob(FIRE_PLAN, ({ planId }, job) => firing.fire(planId, job))
      })
      if (hasDied) deaths++
      const firings = await prisma.planFiring.count({ where: { planId: plan?.id ?? '' } })
      const runs = await prisma.run.count({ where: { agentId: agent.id } })
      expect({ n, firings, runs }).toEqual({ n, firings: 1, runs: 1 })
      expect(await prisma.plan.findFirst({ where: { id: plan?.id ?? '' } })).toMatchObject({ enabled: false })
    }
    expect(deaths).toBeGreaterThanOrEqual(isNightly ? 9 : 3)
  })

  test('sends the notices of a call in their order, each with one id', { timeout: 120_000 }, async () => {
    const { prisma } = platform.db
    let deaths = 0
    for (const n of sampleOf(STATEMENTS, 3)) {
      await prisma.$executeRaw`DELETE FROM pgboss.job`
      const agent = await domain.agent(`Told ${n}`)
      await prisma.agent.update({
        where: { id: agent.id },
        data: notifyColumns(agent.id, 'https://example.test/', platform.secretBox).columns,
      })
      const call = newId('tcl')
      for (const id of ['first', 'second'])
        await prisma.$executeRaw(
          enqueueSql(
            SEND_NOTICE,
            Prisma.sql`SELECT ${call}::text AS key, ${call}::text AS subject, jsonb_build_object(
              'id', ${id}::text, 'agentId', ${agent.id}::text, 'toolCallId', ${call}::text, 'body', '{"data":{"spaceId":null}}') AS data`,
          ),
        )
      const sent: string[] = []
      const http = {
        async send({ headers }: { headers?: Record<string, string> }) {
          sent.push(headers?.['webhook-id'] ?? '')
          return { type: 'answer' as const, status: 204, body: '' }
        },
      }
      if (await dieAfter(n, (of) => createNotifying(of, { http: http as never }))) deaths++
      expect({ n, sent: [...new Set(sent)] }).toEqual({ n, sent: ['first', 'second'] })
      expect(sent.length, `after ${n}`).toBeLessThanOrEqual(3)
      expect(sent.lastIndexOf('first'), `after ${n}`).toBeLessThan(sent.indexOf('second'))
    }
    expect(deaths).toBeGreaterThanOrEqual(isNightly ? 9 : 3)
  })
})
