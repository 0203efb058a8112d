import { afterEach, describe, expect, test } from 'vitest'
import type { Run } from '../../src/generated/prisma/client.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { canStartPostgres } from '../support/throwaway-postgres.ts'
import { canStartRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'
import { type Deployment, deploy } from './deployment.ts'

const SKEWS_MS = [-2000, 2000]
const MAX_RUN_SECONDS = 14
/** More than a lease of 10 s, and less than the time limit of a run. */
const LONG_MS = 11_500
/** How late a deadline may be on a busy machine. It must never be early. */
const LATE_MS = 8000

const answered = { description: 'Asks a person.', inputSchema: { type: 'object' }, execution: 'SPACE' as const }

describe.skipIf(!(await canStartPostgres()) || !canStartRedis())('workers with skewed clocks', () => {
  let deployment: Deployment
  afterEach(() => deployment?.close())

  const tookMs = ({ startedAt, finishedAt }: Run) => (finishedAt?.getTime() ?? 0) - (startedAt?.getTime() ?? 0)

  test('workers whose clocks are off by 2 s, one behind and one ahead, meet every deadline, none early, and keep their leases', {
    timeout: 240_000,
  }, async () => {
    deployment = await deploy(2, {
      clockSkewsMs: SKEWS_MS,
      settings: { PARLEY_MAX_RUN_SECONDS: String(MAX_RUN_SECONDS) },
    })
    const { models, app } = deployment
    const { prisma } = app.platform.db
    models.script(forAgent('Asking', steps([{ toolCall: 'ask', input: {} }])))
    models.script(forAgent('Waiting', steps([{ toolCall: 'ask', input: {} }])))
    models.script(forAgent('Hanging', () => [{ hang: true }]))
    models.script(forAgent('Slow', () => [{ delayMs: LONG_MS }, { text: 'Done.' }]))
    models.script(forAgent('Planning', () => [{ text: 'On time.' }]))

    const asking = await deployment.room('Asking', { tools: [{ name: 'ask', ...answered, timeoutMs: 1000 }] })
    const waiting = await deployment.room('Waiting', { tools: [{ name: 'ask', ...answered }] })
    const [hanging, slow, planning] = [
      await deployment.room('Hanging'),
      await deployment.room('Slow'),
      await deployment.room('Planning'),
    ]
    const say = async ({ spaceId }: { spaceId: string }, count: number) =>
      (await Promise.all(Array.from({ length: count }, (_, n) => deployment.say(spaceId, `Go ${n}`)))).flat()
    const ids = {
      slow: await say(slow, 4),
      hanging: await say(hanging, 3),
      waiting: await say(waiting, 3),
      asking: await say(asking, 20),
    }
    const plans = [1, 2, 3].map((seconds) => ({ name: `In ${seconds}`, instruction: 'Look.', afterSeconds: seconds }))
    await app.domain.plans.setOwn(planning.agentId, plans)
    const due = await prisma.plan.findMany({ where: { agentId: planning.agentId } })

    await until('all have ended', async () => (await prisma.run.count({ where: { finishedAt: null } })) === 0, {
      timeoutMs: 90_000,
      intervalMs: 100,
    })
    const runsOf = (of: string[]) => prisma.run.findMany({ where: { id: { in: of } } })
    const isWithin = (run: Run, leastMs: number) => tookMs(run) >= leastMs && tookMs(run) <= leastMs + LATE_MS

    const asked = await runsOf(ids.asking)
    expect(asked.filter((run) => run.status !== 'COMPLETED' || !isWithin(run, 1000))).toEqual([])
    const outOfTime = await runsOf([...ids.hanging, ...ids.waiting])
    const cap = MAX_RUN_SECONDS * 1000
    expect(outOfTime.filter((run) => run.status !== 'FAILED' || !isWithin(run, cap))).toEqual([])
    expect(new Set(outOfTime.map(({ error }) => error))).toEqual(
      new Set([`The run exceeded the time limit of ${MAX_RUN_SECONDS} s (PARLEY_MAX_RUN_SECONDS).`]),
    )
    const long = await runsOf(ids.slow)
    expect(long.filter(({ status, attempt }) => status !== 'COMPLETED' || attempt !== 1)).toEqual([])

    const fired = await prisma.run.findMany({ where: { agentId: planning.agentId } })
    const dueAt = new Map(due.map(({ name, nextRunAt }) => [name, nextRunAt?.getTime() ?? 0]))
    expect(fired.map(({ status }) => status)).toEqual(['COMPLETED', 'COMPLETED', 'COMPLETED'])
    const lateness = fired.map(
      ({ startedAt, triggerName }) => (startedAt?.getTime() ?? 0) - (dueAt.get(triggerName ?? '') ?? 0),
    )
    expect(lateness.filter((late) => late < 0 || late > LATE_MS)).toEqual([])
  })
})
