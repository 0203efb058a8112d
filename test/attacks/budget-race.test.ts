import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Run } from '../../src/generated/prisma/client.ts'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { until } from '../support/until.ts'

const BUDGET = 30_000
const AT_ONCE = 50

describe.each(RULE_STACKS)('a budget shared by many concurrent runs, on the %s stack', (stack) => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  /** The usage of each generation, and the number of generations at the same time. */
  function generationsUse(inputTokens: number, outputTokens = 60) {
    const seen = { calls: 0 }
    parley.models.script(() => {
      seen.calls += 1
      return [{ delayMs: 30 }, { text: 'Done.' }, { usage: { inputTokens, outputTokens } }]
    })
    return seen
  }
  async function runAtOnce(
    spaceIds: string[],
    human: Parameters<TestApplication['send']>[0],
    count: number,
  ): Promise<Run[]> {
    const sent = await Promise.all(
      Array.from({ length: count }, (_, n) => parley.send(human, spaceIds[n % spaceIds.length] ?? '', `Go ${n}`)),
    )
    return Promise.all(sent.flatMap(({ runs }) => runs).map(({ id }) => parley.runWhen(id)))
  }
  const tokensOf = (runs: Run[]) => runs.reduce((sum, run) => sum + run.inputTokens + run.outputTokens, 0)
  const reserved = async () =>
    parley.app.platform.db.prisma.run.count({ where: { reservedTokens: { gt: 0 }, status: 'RUNNING' } })

  test.each(['agent', 'space', 'human'] as const)(
    'is exceeded by less than one generation if it is the budget of the %s',
    async (whose) => {
      const { human, space } = await parley.room('Ada', {
        maxConcurrentRuns: AT_ONCE,
        ...(whose === 'agent' ? { budget: { tokensPerDay: BUDGET } } : {}),
      })
      if (whose === 'space')
        await parley.app.domain.spaces.update(parley.admin, { id: space.id, budget: { tokensPerDay: BUDGET } })
      if (whose === 'human')
        await parley.app.domain.humans.update(parley.admin, { id: human.id, budget: { tokensPerDay: BUDGET } })
      const seen = generationsUse(3000)
      const runs = await runAtOnce([space.id], human, AT_ONCE)
      expect(tokensOf(runs)).toBeGreaterThanOrEqual(BUDGET)
      expect(tokensOf(runs)).toBeLessThan(BUDGET + 3060)
      const over = runs.filter(({ stopReason }) => stopReason === 'OVER_BUDGET')
      expect(runs.length - over.length).toBe(seen.calls)
      const { runs: later } = await parley.send(human, space.id, 'And now?')
      expect(later).toEqual([])
      expect(await reserved()).toBe(0)
    },
  )

  test('refuses no run until the budget is used up: a run that might exceed it waits', async () => {
    const { human, space } = await parley.room('Bea', { maxConcurrentRuns: AT_ONCE, budget: { tokensPerDay: BUDGET } })
    generationsUse(100)
    const runs = await runAtOnce([space.id], human, AT_ONCE)
    expect(runs.map(({ status }) => status)).toEqual(Array(AT_ONCE).fill('COMPLETED'))
    expect(tokensOf(runs)).toBe(AT_ONCE * 160)
  })

  test('counts the reservation of a dead worker until its lease ends', async () => {
    const { human, agent, space } = await parley.room('Cy', { maxConcurrentRuns: 2, budget: { tokensPerDay: BUDGET } })
    const { prisma } = parley.app.platform.db
    const id = 'run_01a20000000000000000000000000001'
    const row = {
      agentId: agent.id,
      status: 'RUNNING' as const,
      triggerType: 'SERVICE' as const,
      triggerSummary: '',
      depth: 0,
    }
    const dead = {
      ...row,
      id,
      rootId: id,
      claimableAt: null,
      attempt: 1,
      startedAt: new Date(),
      reservedTokens: BUDGET,
    }
    const aWhile = () => new Date(Date.now() + 60_000)
    await prisma.run.create({ data: { ...dead, leaseUntil: aWhile(), deadlineAt: aWhile() } })
    const seen = generationsUse(100)
    const { runs } = await parley.send(human, space.id, 'Go')
    await until('the run waits', async () => (await parley.run(runs[0]?.id ?? '')).status === 'RUNNING')
    await until('the run has tried', async () => (await parley.eventsOf(runs[0]?.id ?? '')).includes('RunStarted'))
    expect(seen.calls).toBe(0)
    await prisma.run.update({ where: { id }, data: { leaseUntil: new Date(Date.now() - 1000) } })
    expect(await parley.runWhen(runs[0]?.id ?? '')).toMatchObject({ status: 'COMPLETED', inputTokens: 100 })
    expect((await parley.runWhen(id)).reservedTokens).toBe(0)
  })

  test('is released when a run is stopped during a generation', async () => {
    const { human, space } = await parley.room('Dee', { maxConcurrentRuns: 2, budget: { tokensPerDay: 9000 } })
    parley.models.script(() => [{ text: 'Begun' }, { hang: true }])
    const { runs: first } = await parley.send(human, space.id, 'Hang')
    await until('the run has reserved its budget', async () => (await reserved()) === 1)
    const { runs: second } = await parley.send(human, space.id, 'Go')
    await until('the other run waits', async () => (await parley.run(second[0]?.id ?? '')).status === 'RUNNING')
    generationsUse(100)
    await parley.app.domain.control.stopRun(human, { runId: first[0]?.id ?? '', cascade: false })
    expect(await parley.runWhen(second[0]?.id ?? '')).toMatchObject({ status: 'COMPLETED' })
  })
})
