import { afterEach, describe, expect, test } from 'vitest'
import { eventsOf, isEndTold } from '../support/application.ts'
import { runsOf } from '../support/effort.ts'
import type { ModelAction, ModelRequest } from '../support/model-server-script.ts'
import { canStartPostgres } from '../support/throwaway-postgres.ts'
import { canStartRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'
import { type Deployment, deploy, runOf, workerOf } from './deployment.ts'

const RUNS = runsOf({ usual: 24, nightly: 80 })
const STEPS = 5
const SLEEPER = 0
/** Longer than it takes to detect a lost lease and execute all runs, with a margin for a busy machine. */
const TAKEN_OVER_WITHIN = { timeoutMs: 90_000, intervalMs: 50 }

function fiveSteps({ step }: ModelRequest): ModelAction[] {
  if (step >= STEPS) return [{ text: 'All five are said.' }]
  return [{ toolCall: 'send_message', input: { text: `step ${step} of the five` }, chunks: 3, delayMs: 15 }]
}

describe.skipIf(!(await canStartPostgres()) || !canStartRedis())('a worker that sleeps past its leases', () => {
  let deployment: Deployment
  afterEach(() => deployment?.close())

  const db = () => deployment.app.platform.db.prisma
  const signal = (name: NodeJS.Signals) => process.kill(deployment.workers[SLEEPER]?.pid ?? 0, name)
  const hasEnded = (ids: string[]) => async () =>
    (await db().run.count({ where: { id: { in: ids }, finishedAt: null } })) === 0 &&
    (await Promise.all(ids.map((id) => isEndTold(deployment.app, id)))).every(Boolean)

  /** Starts many runs, several of which the worker has claimed when it is suspended. */
  async function fallAsleep(): Promise<{ runIds: string[]; inHand: string[] }> {
    deployment = await deploy(2)
    const { models } = deployment
    const askedBy = new Map<string, string>()
    models.script((request) => {
      askedBy.set(runOf(request), workerOf(request))
      return fiveSteps(request)
    })
    const rooms = await Promise.all(Array.from({ length: 8 }, (_, n) => deployment.room(`Room ${n}`)))
    const say = (n: number) => deployment.say(rooms[n % rooms.length]?.spaceId ?? '', `Go ${n}`)
    const runIds = (await Promise.all(Array.from({ length: RUNS }, (_, n) => say(n)))).flat()
    const isSleepers = (request: ModelRequest) => workerOf(request) === deployment.keyOf(SLEEPER)
    await models.request((request) => isSleepers(request) && request.step === 2)
    signal('SIGSTOP')
    const living = await db().run.findMany({ where: { id: { in: runIds }, status: 'RUNNING' } })
    const inHand = living.filter(({ id }) => askedBy.get(id) === deployment.keyOf(SLEEPER)).map(({ id }) => id)
    expect(inHand.length).toBeGreaterThan(0)
    return { runIds, inHand }
  }

  /**
   * Returns the rows and published events of runs. Leaves out their usage, which includes that of the suspended worker's
   * generation.
   */
  async function stateOf(runIds: string[]) {
    const where = { runId: { in: runIds } }
    const [runs, messages, calls, steps, told] = await Promise.all([
      db().run.findMany({
        where: { id: { in: runIds } },
        orderBy: { id: 'asc' },
        omit: {
          inputTokens: true,
          cachedInputTokens: true,
          outputTokens: true,
          costNanos: true,
          usageEstimated: true,
        },
      }),
      db().message.findMany({ where, orderBy: { id: 'asc' } }),
      db().toolCall.findMany({ where, orderBy: { id: 'asc' } }),
      db().step.findMany({ where, orderBy: { id: 'asc' } }),
      Promise.all(runIds.map((id) => eventsOf(deployment.app, id))),
    ])
    return { runs, messages, calls, steps, told }
  }

  async function expectAllSaidOnce(runIds: string[]): Promise<void> {
    const runs = await db().run.findMany({ where: { id: { in: runIds } } })
    expect(runs.filter(({ status }) => status !== 'COMPLETED')).toEqual([])
    const messages = await db().message.findMany({ where: { runId: { in: runIds } }, orderBy: { seq: 'asc' } })
    for (const runId of runIds) {
      const whole = messages.filter((message) => message.runId === runId && message.status === 'COMPLETE')
      const texts = whole.map(({ parts }) => (parts as { text: string }[])[0]?.text)
      expect([runId, ...texts]).toEqual([runId, ...Array.from({ length: STEPS }, (_, n) => `step ${n} of the five`)])
    }
    expect(await db().message.count({ where: { status: 'STREAMING' } })).toBe(0)
    expect(deployment.models.refusals).toEqual([])
  }

  /** When the worker has executed a new run, it is awake and has finished its pending work. */
  async function sleeperWorksAgain(): Promise<void> {
    const isNew = (request: ModelRequest) => request.messages.some(({ text }) => text.includes('Are you awake?'))
    const { spaceId } = await deployment.room('Later')
    let asked = false
    void deployment.models
      .request((request) => isNew(request) && workerOf(request) === deployment.keyOf(SLEEPER))
      .then(() => {
        asked = true
      })
    const sent: string[] = []
    await until(
      'it executes another run',
      async () => {
        if (!asked && (await hasEnded(sent)())) sent.push(...(await deployment.say(spaceId, 'Are you awake?')))
        return asked
      },
      TAKEN_OVER_WITHIN,
    )
    await until('the new runs end', hasEnded(sent), TAKEN_OVER_WITHIN)
  }

  test('writes nothing to runs that other workers have ended', { timeout: 240_000 }, async () => {
    const { runIds, inHand } = await fallAsleep()
    await until('another worker has ended all', hasEnded(runIds), TAKEN_OVER_WITHIN)
    const before = await stateOf(runIds)
    expect(before.runs.filter(({ id, attempt }) => inHand.includes(id) && attempt < 2)).toEqual([])
    signal('SIGCONT')
    await sleeperWorksAgain()
    expect(await stateOf(runIds)).toEqual(before)
    await expectAllSaidOnce(runIds)
  })

  test('does not interfere with workers that are about to end those runs', { timeout: 240_000 }, async () => {
    const { runIds, inHand } = await fallAsleep()
    const taken = { where: { id: { in: inHand }, attempt: { gt: 1 } } }
    await until('another worker has claimed one', async () => (await db().run.count(taken)) > 0, TAKEN_OVER_WITHIN)
    signal('SIGCONT')
    await until('all have ended', hasEnded(runIds), TAKEN_OVER_WITHIN)
    await sleeperWorksAgain()
    await expectAllSaidOnce(runIds)
    expect(await db().run.count({ where: { finishedAt: null } })).toBe(0)
  })
})
