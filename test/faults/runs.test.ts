import { Redis } from 'ioredis'
import { afterEach, describe, expect, test } from 'vitest'
import { runsOf } from '../support/effort.ts'
import type { ModelAction, ModelRequest } from '../support/model-server-script.ts'
import { canStartPostgres } from '../support/throwaway-postgres.ts'
import { canStartRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'
import { type Deployment, deploy, runOf, workerOf } from './deployment.ts'

const RUNS = runsOf({ usual: 24, nightly: 200 })
const KILLS = runsOf({ usual: 3, nightly: 30 })
const OUTAGES = runsOf({ usual: 1, nightly: 5 })
const STEPS = 5
const SETTLED_WITHIN_MS = 60_000

/** Does by hand what an operator would do. */
async function flush(url: string): Promise<void> {
  const client = new Redis(url)
  await client.flushall()
  client.disconnect()
}

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** A run of five steps with one post each, which takes long enough for kills to hit it at any stage. */
function fiveSteps(request: ModelRequest): ModelAction[] {
  if (request.step >= STEPS) return [{ text: 'All five are said.' }]
  return [{ toolCall: 'send_message', input: { text: `step ${request.step} of the five` }, chunks: 3, delayMs: 15 }]
}

describe.skipIf(!(await canStartPostgres()) || !canStartRedis())('runs survive', () => {
  let deployment: Deployment
  afterEach(() => deployment?.close())

  async function begin(workers: number): Promise<string[]> {
    deployment = await deploy(workers)
    deployment.models.script(fiveSteps)
    const rooms = await Promise.all(Array.from({ length: 20 }, (_, n) => deployment.room(`Room ${n}`)))
    const sent = await Promise.all(
      Array.from({ length: RUNS }, (_, n) =>
        deployment.app.domain.sending.send(deployment.human, {
          spaceId: rooms[n % rooms.length]?.spaceId ?? '',
          text: `Go ${n}`,
        }),
      ),
    )
    return sent.flatMap(({ runs }) => runs.map(({ id }) => id))
  }

  /**
   * Checks that all runs have ended correctly, and that every message is complete once, or was interrupted and repeated. The
   * worker of an `unlucky` run may have died three times in a row without completing a step; such a run fails.
   */
  async function settle(runIds: string[], unlucky: Set<string> = new Set()): Promise<void> {
    const { prisma } = deployment.app.platform.db
    await until(
      'no run is QUEUED or RUNNING',
      async () => (await prisma.run.count({ where: { status: { in: ['QUEUED', 'RUNNING', 'WAITING_TOOL'] } } })) === 0,
      { timeoutMs: SETTLED_WITHIN_MS, intervalMs: 250 },
    )
    const runs = await prisma.run.findMany({ where: { id: { in: runIds } } })
    const failed = runs.filter(({ status }) => status !== 'COMPLETED')
    expect(failed.filter(({ id, error }) => !unlucky.has(id) || !error?.startsWith('Workers died 3 times'))).toEqual([])
    const completed = runIds.filter((id) => failed.every((run) => run.id !== id))
    const messages = await prisma.message.findMany({ where: { runId: { in: runIds } }, orderBy: { seq: 'asc' } })
    for (const runId of completed) {
      const whole = messages.filter((message) => message.runId === runId && message.status === 'COMPLETE')
      const texts = whole.map(({ parts }) => (parts as { text: string }[])[0]?.text)
      expect(texts).toEqual(Array.from({ length: STEPS }, (_, step) => `step ${step} of the five`))
    }
    await until(
      'no message is left open',
      async () => (await prisma.message.count({ where: { status: 'STREAMING' } })) === 0,
      {
        timeoutMs: 30_000,
      },
    )
    const spaces = await prisma.space.findMany()
    for (const { id, lastSeq } of spaces) expect(await prisma.message.count({ where: { spaceId: id } })).toBe(lastSeq)
    expect(deployment.models.refusals).toEqual([])
  }

  test(`workers killed with SIGKILL, every 2 s until ${KILLS} kills`, { timeout: 400_000 }, async () => {
    const runIds = await begin(3)
    const { prisma } = deployment.app.platform.db
    const orphaned = new Map<string, { since: number; attempt: number }>()
    const deaths = new Map<string, number>()
    const pickUps: number[] = []
    const lastWorker = new Map<string, string>()
    const deadWorkers = new Set<string>()
    deployment.models.script((request) => void lastWorker.set(runOf(request), workerOf(request)))

    /** A run has been taken over when its attempt has increased, or it has ended. */
    async function notePickUps(): Promise<void> {
      const runs = await prisma.run.findMany({ where: { id: { in: [...orphaned.keys()] } } })
      for (const { id, attempt, finishedAt } of runs) {
        const orphan = orphaned.get(id)
        if (orphan === undefined || (attempt === orphan.attempt && finishedAt === null)) continue
        pickUps.push(Date.now() - orphan.since)
        orphaned.delete(id)
      }
    }

    async function killOne(index: number): Promise<void> {
      const dead = await deployment.replaceWorker(index)
      deadWorkers.add(dead)
      const living = await prisma.run.findMany({ where: { status: 'RUNNING' } })
      for (const { id, attempt } of living) {
        const worker = lastWorker.get(id)
        if (worker === dead) orphaned.set(id, { since: Date.now(), attempt })
        // If there was no model request since another death, the dead worker may have had this run.
        if (worker === undefined || deadWorkers.has(worker)) deaths.set(id, (deaths.get(id) ?? 0) + 1)
      }
    }

    for (let kill = 0; kill < KILLS; kill++) {
      const next = Date.now() + 2000
      while (Date.now() < next) {
        await wait(100)
        await notePickUps()
      }
      await killOne(kill % 3)
    }
    await until(
      'every orphaned run is picked up',
      async () => {
        await notePickUps()
        return orphaned.size === 0
      },
      { timeoutMs: 30_000, intervalMs: 100 },
    )
    await settle(runIds, new Set([...deaths].flatMap(([id, count]) => (count >= 3 ? [id] : []))))
    pickUps.sort((a, b) => a - b)
    const p99 = pickUps[Math.floor(pickUps.length * 0.99)] ?? 0
    console.info(`${pickUps.length} runs taken over, p50 ${pickUps[pickUps.length >> 1]} ms, p99 ${p99} ms`)
    expect(p99).toBeLessThanOrEqual(15_000)
  })

  test(`${OUTAGES} crashes of PostgreSQL`, { timeout: 400_000 }, async () => {
    const runIds = await begin(2)
    for (let outage = 0; outage < OUTAGES; outage++) {
      await wait(2000)
      await deployment.postgres.stop('immediate')
      await deployment.postgres.start()
    }
    await settle(runIds)
  })

  test(`${OUTAGES} flushes and kills of Redis`, { timeout: 400_000 }, async () => {
    const runIds = await begin(2)
    for (let outage = 0; outage < OUTAGES; outage++) {
      await wait(1500)
      await flush(deployment.redis.url)
      await wait(1500)
      await deployment.redis.kill()
      await deployment.redis.start()
    }
    await settle(runIds)
  })
})
