import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../support/application.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { hasPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

/** A gate at which a scripted model waits. */
function gate() {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { promise, open: resolve }
}

describe.skipIf(!hasPostgres)('limits across two processes on PostgreSQL and Redis', () => {
  let one: TestApplication
  let two: TestApplication

  beforeAll(async () => {
    one = await startApplication({ stack: 'postgres' })
    two = await startApplication({ stack: 'postgres', beside: one })
  })
  afterAll(async () => {
    await two?.close()
    await one?.close()
  })
  beforeEach(() => one.models.reset())

  test('max concurrent runs per agent: five execute concurrently across all processes, further ones wait as QUEUED', async () => {
    const human = await one.human('Husam')
    const agent = await one.agent('Ada')
    const spaces = await Promise.all(Array.from({ length: 8 }, () => one.space(human, [agent.id])))
    const hold = gate()
    let executing = 0
    let most = 0
    one.models.script(async () => {
      executing += 1
      most = Math.max(most, executing)
      await hold.promise
      executing -= 1
      return [{ text: 'Done.' }]
    })
    const sent = await Promise.all(spaces.map((space, n) => (n % 2 === 0 ? one : two).send(human, space.id, 'Work')))
    const ids = sent.flatMap(({ runs }) => runs.map(({ id }) => id))
    await until('five execute', () => executing === 5)
    const statuses = (await Promise.all(ids.map((id) => one.run(id)))).map(({ status }) => status).sort()
    expect(statuses).toEqual(['QUEUED', 'QUEUED', 'QUEUED', ...Array(5).fill('RUNNING')])
    hold.open()
    for (const id of ids) expect(await one.runWhen(id)).toMatchObject({ status: 'COMPLETED' })
    expect(most).toBe(5)
  })

  test('a run that waits for a tool does not count among the five', async () => {
    const human = await one.human('Husam')
    const ask = { name: 'ask', description: 'Asks.', inputSchema: { type: 'object' }, execution: 'SPACE' as const }
    const agent = await one.agent('Bea', { tools: [ask], maxConcurrentRuns: 1 })
    const space = await one.space(human, [agent.id])
    one.models.script(({ messages }) =>
      messages.at(-1)?.text.includes('Ask me') ? [{ toolCall: 'ask' }] : [{ text: 'Fine.' }],
    )
    const first = await one.send(human, space.id, 'Ask me')
    await one.runWhen(first.runs[0]?.id ?? '', 'WAITING_TOOL')
    one.models.reset()
    one.models.script(() => [{ text: 'Fine.' }])
    const second = await one.send(human, space.id, 'Something else')
    expect(await one.runWhen(second.runs[0]?.id ?? '')).toMatchObject({ status: 'COMPLETED' })
  })

  test('dedup: 20 (agent, message) pairs routed 50 times each, concurrently from two processes, are 20 runs', async () => {
    const human = await one.human('Husam')
    const agents = await Promise.all(Array.from({ length: 4 }, (_, n) => one.agent(`Agent ${n}`)))
    one.models.script(() => [{ text: 'Seen.' }])
    const space = await one.space(
      human,
      agents.map(({ id }) => id),
    )
    const keys = ['a', 'b', 'c', 'd', 'e']
    const post = (key: string, n: number) =>
      (n % 2 === 0 ? one : two).app.domain.sending.send(human, {
        spaceId: space.id,
        text: `Message ${key}`,
        idempotencyKey: key,
      })
    const answers: Awaited<ReturnType<typeof post>>[] = []
    for (const key of keys) answers.push(...(await Promise.all(Array.from({ length: 50 }, (_, n) => post(key, n)))))
    const ids = new Set(answers.flatMap(({ runs }) => runs.map(({ id }) => id)))
    expect(ids.size).toBe(20)
    expect(await one.app.platform.db.prisma.run.count({ where: { triggerSpaceId: space.id } })).toBe(20)
    expect(
      (await one.messages(space.id)).filter(({ senderId }) => senderId === human.id).map(({ seq }) => seq),
    ).toHaveLength(5)
    for (const id of ids) await one.runWhen(id)
  })
})

describe('loop protection under BROADCAST', () => {
  let parley: TestApplication
  afterEach(() => parley?.close())

  test.each([2, 3, 5])(
    '%i agents that always respond stop at the maximum depth or number of runs, with LOOP_LIMIT',
    async (count) => {
      parley = await startApplication({
        settings: { PARLEY_MAX_CHAIN_DEPTH: '4', PARLEY_MAX_ROOT_RUNS: '12' },
      })
      const human = await parley.human('Husam')
      const agents = await Promise.all(Array.from({ length: count }, (_, n) => parley.agent(`Agent ${n}`)))
      const space = await parley.space(
        human,
        agents.map(({ id }) => id),
      )
      parley.models.script(steps([{ toolCall: 'send_message', input: { text: 'I agree.' } }], [{ text: 'Answered.' }]))
      const { message } = await parley.send(human, space.id, 'Discuss')
      const { prisma } = parley.app.platform.db
      await until(
        'all runs have ended',
        async () => (await prisma.run.count({ where: { status: { in: ['QUEUED', 'RUNNING'] } } })) === 0,
      )
      const runs = await prisma.run.findMany({ where: { rootId: message.id } })
      expect(runs.length).toBeLessThanOrEqual(12)
      expect(Math.max(...runs.map(({ depth }) => depth))).toBeLessThan(4)
      expect(await prisma.outcome.count({ where: { kind: 'LOOP_LIMIT' } })).toBeGreaterThan(0)
      const before = runs.length
      const again = await parley.send(human, space.id, 'Afresh')
      expect(again.runs).toHaveLength(count)
      expect(before).toBeGreaterThan(count)
      await until(
        'all runs have ended',
        async () => (await prisma.run.count({ where: { status: { in: ['QUEUED', 'RUNNING'] } } })) === 0,
      )
    },
  )
})

describe('an agent and its own runs', () => {
  let parley: TestApplication
  beforeAll(async () => {
    parley = await startApplication()
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  test('ACTIVE RUNS lists this run first and every other with its trigger; get_my_runs and stop_run work on them', async () => {
    const { human, space } = await parley.room('Ops', {}, { name: 'Project Alpha' })
    const hold = gate()
    parley.models.script(
      forAgent('Ops', async ({ messages, step }) => {
        if (!messages.some(({ text }) => text.includes('urgent'))) {
          await hold.promise
          return [{ text: 'Too late.' }]
        }
        if (step === 0) return [{ toolCall: 'get_my_runs', input: {} }]
        const listed = JSON.parse(messages.findLast(({ role }) => role === 'tool')?.text ?? '{}')
        if (step === 1) return [{ toolCall: 'stop_run', input: { runId: listed.runs[0].runId } }]
        return [{ text: 'I stopped the review.' }]
      }),
    )
    const review = await parley.send(human, space.id, 'Review the design')
    await parley.models.request(() => true)
    const urgent = await parley.send(human, space.id, 'urgent: cancel the deployment')
    const done = await parley.runWhen(urgent.runs[0]?.id ?? '')
    expect(done).toMatchObject({ status: 'COMPLETED', summary: 'I stopped the review.' })
    expect(await parley.runWhen(review.runs[0]?.id ?? '')).toMatchObject({ status: 'CANCELED' })
    const first = await parley.models.request(
      ({ messages, step }) => step === 0 && messages.some(({ text }) => text.includes('urgent')),
    )
    const [mine, other] = first.instructions.split('ACTIVE RUNS:\n')[1]?.split('\n') ?? []
    expect(mine).toBe(`- Run ${done.id} (this run) — triggered by Husam in "Project Alpha"`)
    expect(other).toBe(`- Run ${review.runs[0]?.id} (running) — Husam in "Project Alpha": "Review the design"`)
    const second = await parley.models.request(({ step }) => step === 1)
    const listed = JSON.parse(second.messages.findLast(({ role }) => role === 'tool')?.text ?? '{}')
    expect(listed).toMatchObject({
      runs: [{ runId: review.runs[0]?.id, status: 'running', triggerType: 'space_message', activeSpaceId: space.id }],
      totalActive: 2,
    })
    hold.open()
  })

  test('get_my_runs with a status returns past runs with their summaries: "I did that already"', async () => {
    const { human, space } = await parley.room('Clerk')
    parley.models.script(() => [{ text: 'I filed ticket 7.' }])
    const filed = await parley.send(human, space.id, 'File ticket 7')
    await parley.runWhen(filed.runs[0]?.id ?? '')
    parley.models.reset()
    parley.models.script(
      steps([{ toolCall: 'get_my_runs', input: { status: 'completed', limit: 5 } }], [{ text: 'Known.' }]),
    )
    const asked = await parley.send(human, space.id, 'And ticket 7?')
    await parley.runWhen(asked.runs[0]?.id ?? '')
    const { messages } = await parley.models.request(({ step }) => step === 1)
    expect(JSON.parse(messages.findLast(({ role }) => role === 'tool')?.text ?? '')).toMatchObject({
      runs: [{ runId: filed.runs[0]?.id, status: 'completed', summary: 'I filed ticket 7.' }],
      totalActive: 1,
    })
  })

  test("stop_run stops only the agent's own other runs", async () => {
    const { human, space } = await parley.room('Lone')
    const another = await parley.room('Another')
    parley.models.script(forAgent('Another', steps([{ hang: true }])))
    const living = (await parley.send(another.human, another.space.id, 'Work')).runs[0]?.id ?? ''
    await parley.runWhen(living, 'RUNNING')
    const results: string[] = []
    parley.models.script(
      forAgent('Lone', ({ step, messages, instructions }) => {
        const own = /- Run (run_\w+) \(this run\)/.exec(instructions)?.[1]
        const last = messages.findLast(({ role }) => role === 'tool')?.text
        if (last !== undefined) results.push(last)
        if (step === 0) return [{ toolCall: 'stop_run', input: { runId: own } }]
        if (step === 1) return [{ toolCall: 'stop_run', input: { runId: `run_${'0'.repeat(32)}` } }]
        if (step === 2) return [{ toolCall: 'stop_run', input: { runId: living } }]
        return [{ text: 'Understood.' }]
      }),
    )
    const { runs } = await parley.send(human, space.id, 'Stop yourself')
    expect(await parley.runWhen(runs[0]?.id ?? '')).toMatchObject({ status: 'COMPLETED' })
    expect(results.map((text) => JSON.parse(text).error.code)).toEqual(['BAD_INPUT', 'NOT_FOUND', 'NOT_FOUND'])
    expect(await parley.run(living)).toMatchObject({ status: 'RUNNING' })
    await parley.app.domain.control.stopRun(another.human, { runId: living, cascade: false })
  })

  test('a cascade stops every run that the stopped one triggered', async () => {
    const human = await parley.human('Husam')
    const [boss, worker] = [await parley.agent('Boss'), await parley.agent('Hand')]
    const space = await parley.space(human, [boss.id, worker.id])
    parley.models.script(
      forAgent('Boss', steps([{ toolCall: 'send_message', input: { text: 'Hand, dig.' } }], [{ hang: true }])),
    )
    parley.models.script(
      forAgent('Hand', ({ messages }) =>
        messages.at(-1)?.text.includes('Hand, dig.') ? [{ hang: true }] : [{ text: 'Nothing for me.' }],
      ),
    )
    const { runs } = await parley.send(human, space.id, 'Go')
    const parent = runs.find(({ agentId }) => agentId === boss.id)
    const { prisma } = parley.app.platform.db
    const child = await until('the child runs', () =>
      prisma.run.findFirst({ where: { parentRunId: parent?.id ?? '', status: 'RUNNING' } }),
    )
    await parley.app.domain.control.stopRun(human, { runId: parent?.id ?? '', cascade: true })
    expect(await parley.run(child.id)).toMatchObject({ status: 'CANCELED' })
    expect(await parley.run(parent?.id ?? '')).toMatchObject({ status: 'CANCELED' })
  })
})
