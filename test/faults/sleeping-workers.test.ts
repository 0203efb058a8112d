import { afterEach, describe, expect, test } from 'vitest'
import type { ModelAction, ModelRequest } from '../support/model-server-script.ts'
import { findPostgresBinaries } from '../support/throwaway-postgres.ts'
import { findRedisBinary } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'
import { type Deployment, deploy, SHORT } from './deployment.ts'

const RUNS = SHORT ? 24 : 100
const NAPS = SHORT ? 2 : 6
/** Longer than a lease, the pause after it, and the look that finds it. */
const NAP_MS = 14_000
const STEPS = 5

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Five steps, one post in each, slowly: there is always a run to be asleep in. */
function fiveSteps(request: ModelRequest): ModelAction[] {
  if (request.step >= STEPS) return [{ text: 'All five are said.' }]
  return [{ toolCall: 'send_message', input: { text: `step ${request.step} of the five` }, chunks: 3, delayMs: 250 }]
}

describe.skipIf(findPostgresBinaries() === null || findRedisBinary() === null)('workers that sleep under load', () => {
  let deployment: Deployment
  afterEach(async () => {
    for (const { pid } of deployment?.workers ?? []) process.kill(pid, 'SIGCONT')
    await deployment?.close()
  })

  test(`${NAPS} naps, longer than a lease: others go on with the runs, and who wakes settles nothing of them`, {
    timeout: 600_000,
  }, async () => {
    deployment = await deploy(3)
    deployment.models.script(fiveSteps)
    const rooms = await Promise.all(Array.from({ length: 10 }, (_, n) => deployment.room(`Room ${n}`)))
    const sent = await Promise.all(
      Array.from({ length: RUNS }, (_, n) => {
        const spaceId = rooms[n % rooms.length]?.spaceId ?? ''
        return deployment.app.api.sending.send(deployment.human, { spaceId, text: `Go ${n}` })
      }),
    )
    const runIds = sent.flatMap(({ runs }) => runs.map(({ id }) => id))
    const { prisma } = deployment.app.platform.db
    let takenOver = 0
    for (let nap = 0; nap < NAPS; nap++) {
      await until('runs execute', async () => (await prisma.run.count({ where: { status: 'RUNNING' } })) > 5)
      const { pid } = deployment.workers[nap % 3] ?? { pid: 0 }
      const before = await attempts()
      process.kill(pid, 'SIGSTOP')
      await wait(NAP_MS)
      process.kill(pid, 'SIGCONT')
      takenOver += (await attempts()) - before
    }
    await until(
      'no run is left',
      async () => (await prisma.run.count({ where: { status: { in: ['QUEUED', 'RUNNING', 'WAITING_TOOL'] } } })) === 0,
      { timeoutMs: 240_000, intervalMs: 250 },
    )
    expect(takenOver).toBeGreaterThan(0)
    const runs = await prisma.run.findMany({ where: { id: { in: runIds } } })
    expect(runs.filter(({ status }) => status !== 'COMPLETED').map(({ status, error }) => ({ status, error }))).toEqual(
      [],
    )
    const messages = await prisma.message.findMany({ where: { runId: { in: runIds } }, orderBy: { seq: 'asc' } })
    for (const runId of runIds) {
      const whole = messages.filter((message) => message.runId === runId && message.status === 'COMPLETE')
      const texts = whole.map(({ parts }) => (parts as { text: string }[])[0]?.text)
      expect(texts).toEqual(Array.from({ length: STEPS }, (_, step) => `step ${step} of the five`))
    }
    expect(deployment.models.refusals).toEqual([])

    /** How often runs were claimed after the first time, those together. */
    async function attempts(): Promise<number> {
      const { _sum, _count } = await prisma.run.aggregate({
        where: { attempt: { gt: 0 } },
        _sum: { attempt: true },
        _count: true,
      })
      return (_sum.attempt ?? 0) - _count
    }
  })
})
