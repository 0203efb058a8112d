import { Redis } from 'ioredis'
import { afterEach, describe, expect, test } from 'vitest'
import type { ModelAction, ModelRequest } from '../support/model-server-script.ts'
import { findPostgresBinaries } from '../support/throwaway-postgres.ts'
import { findRedisBinary } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'
import { type Deployment, deploy, runOf, SHORT, workerOf } from './deployment.ts'

const RUNS = SHORT ? 24 : 200
const KILLS = SHORT ? 4 : 30
const OUTAGES = SHORT ? 2 : 5
const STEPS = 5
const SETTLED_WITHIN_MS = 60_000

/** As an operator would by hand. */
async function flush(url: string): Promise<void> {
  const client = new Redis(url)
  await client.flushall()
  client.disconnect()
}

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** A run of five steps that posts once in each, slowly enough to be caught in the middle of every kind of moment. */
function fiveSteps(request: ModelRequest): ModelAction[] {
  if (request.step >= STEPS) return [{ text: 'All five are said.' }]
  return [{ toolCall: 'send_message', input: { text: `step ${request.step} of the five` }, chunks: 3, delayMs: 15 }]
}

describe.skipIf(findPostgresBinaries() === null || findRedisBinary() === null)('runs outlive', () => {
  let deployment: Deployment
  afterEach(() => deployment?.close())

  async function begin(workers: number): Promise<string[]> {
    deployment = await deploy(workers)
    deployment.models.script(fiveSteps)
    const rooms = await Promise.all(Array.from({ length: 20 }, (_, n) => deployment.room(`Room ${n}`)))
    const sent = await Promise.all(
      Array.from({ length: RUNS }, (_, n) =>
        deployment.app.api.sending.send(deployment.human, {
          spaceId: rooms[n % rooms.length]?.spaceId ?? '',
          text: `Go ${n}`,
        }),
      ),
    )
    return sent.flatMap(({ runs }) => runs.map(({ id }) => id))
  }

  /** All runs ended as they should, and every message of theirs is whole once, or was cut off and said again. */
  async function settle(runIds: string[]): Promise<void> {
    const { prisma } = deployment.app.platform.db
    await until(
      'no run is QUEUED or RUNNING',
      async () => (await prisma.run.count({ where: { status: { in: ['QUEUED', 'RUNNING', 'WAITING_TOOL'] } } })) === 0,
      { timeoutMs: SETTLED_WITHIN_MS, intervalMs: 250 },
    )
    const runs = await prisma.run.findMany({ where: { id: { in: runIds } } })
    expect(runs.filter(({ status }) => status !== 'COMPLETED').map(({ id, error }) => ({ id, error }))).toEqual([])
    const messages = await prisma.message.findMany({ where: { runId: { in: runIds } }, orderBy: { seq: 'asc' } })
    for (const runId of runIds) {
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
    const orphaned = new Map<string, number>()
    const pickUps: number[] = []
    const lastWorker = new Map<string, string>()
    deployment.models.script((request) => {
      const runId = runOf(request)
      const since = orphaned.get(runId)
      if (since !== undefined && lastWorker.get(runId) !== workerOf(request)) {
        pickUps.push(Date.now() - since)
        orphaned.delete(runId)
      }
      lastWorker.set(runId, workerOf(request))
      return undefined
    })
    for (let kill = 0; kill < KILLS; kill++) {
      await wait(2000)
      const dead = await deployment.replaceWorker(kill % 3)
      const living = await deployment.app.platform.db.prisma.run.findMany({
        where: { status: 'RUNNING' },
        select: { id: true },
      })
      for (const { id } of living) if (lastWorker.get(id) === dead) orphaned.set(id, Date.now())
    }
    await settle(runIds)
    pickUps.sort((a, b) => a - b)
    const p99 = pickUps[Math.floor(pickUps.length * 0.99)] ?? 0
    console.info(`${pickUps.length} runs taken over, p50 ${pickUps[pickUps.length >> 1]} ms, p99 ${p99} ms`)
    expect(p99).toBeLessThanOrEqual(15_000)
  })

  test(`PostgreSQL crashing ${OUTAGES} times`, { timeout: 400_000 }, async () => {
    const runIds = await begin(2)
    for (let outage = 0; outage < OUTAGES; outage++) {
      await wait(2000)
      await deployment.postgres.stop('immediate')
      await deployment.postgres.start()
    }
    await settle(runIds)
  })

  test(`Redis flushed, and killed, ${OUTAGES} times`, { timeout: 400_000 }, async () => {
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
