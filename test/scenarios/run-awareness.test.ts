import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { RunStatus } from '../../src/generated/prisma/client.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { type ModelAction, type ModelRequest, steps } from '../support/model-server-script.ts'
import { until } from '../support/until.ts'

const ASK = { name: 'ask', description: 'Asks.', inputSchema: { type: 'object' }, execution: 'SPACE' as const }
const FIELDS = ['runId', 'status', 'triggerType', 'triggerSummary', 'activeSpaceId', 'startedAt']

/** The tables of requirement 001: each row is a test with the row's name. */
describe('seed 001: run awareness', () => {
  let parley: TestApplication
  beforeAll(async () => {
    parley = await startApplication()
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  /** Returns the model's actions, by the text of the message that triggered the run. */
  function play(does: Record<string, (request: ModelRequest) => ModelAction[] | Promise<ModelAction[]>>) {
    parley.models.script((request) => {
      const trigger = request.messages.find(({ role }) => role === 'user')?.text.split('\n')[1] ?? ''
      const word = Object.keys(does).find((key) => trigger.includes(key)) ?? ''
      return does[word]?.(request) ?? [{ text: 'Nothing to do.' }]
    })
  }

  async function room(input = {}) {
    const { human, agent, space } = await parley.room('Aware', { tools: [ASK], ...input })
    const send = async (text: string) => (await parley.send(human, space.id, text)).runs[0]?.id ?? ''
    return { human, agent, space, send }
  }

  describe('the table of run states', () => {
    test('queued: run created, waiting to start execution', async () => {
      const { send } = await room({ maxConcurrentRuns: 1 })
      const hold = Promise.withResolvers<void>()
      play({ first: () => hold.promise.then(() => [{ text: 'Done.' }]) })
      await parley.runWhen(await send('first'), 'RUNNING')
      const second = await send('second')
      expect(await parley.run(second)).toMatchObject({ status: 'QUEUED', startedAt: null })
      hold.resolve()
      expect(await parley.runWhen(second)).toMatchObject({ status: 'COMPLETED' })
    })

    test('running: actively generating output and calling tools', async () => {
      const { send } = await room()
      const hold = Promise.withResolvers<void>()
      play({ work: () => hold.promise.then(() => [{ text: 'Done.' }]) })
      const id = await send('work')
      expect(await parley.runWhen(id, 'RUNNING')).toMatchObject({ startedAt: expect.any(Date), finishedAt: null })
      hold.resolve()
      await parley.runWhen(id)
    })

    test('waiting_tool: paused, waiting for a space tool result', async () => {
      const { send } = await room()
      play({ form: () => [{ toolCall: 'ask' }] })
      expect(await parley.runWhen(await send('form'), 'WAITING_TOOL')).toMatchObject({
        finishedAt: null,
        leaseUntil: null,
      })
    })

    test.each([
      ['completed', 'COMPLETED', () => [{ text: 'Fine.' }]],
      ['failed', 'FAILED', () => [{ error: 'Out of order', status: 400 }]],
    ] as [string, string, () => ModelAction[]][])('%s', async (_, status, does) => {
      const { send } = await room()
      play({ go: does })
      expect(await parley.runWhen(await send('go'))).toMatchObject({ status, finishedAt: expect.any(Date) })
    })

    test('canceled: by an explicit stop', async () => {
      const { human, send } = await room()
      play({ go: () => [{ hang: true }] })
      const id = await send('go')
      await parley.runWhen(id, 'RUNNING')
      expect(await parley.app.domain.control.stopRun(human, { runId: id, cascade: false })).toMatchObject({
        run: { status: 'CANCELED' },
      })
    })
  })

  test('the table of fields per run: get_my_runs returns each', async () => {
    const { send, space } = await room()
    let listed: { runs: Record<string, unknown>[] } = { runs: [] }
    play({
      form: () => [{ toolCall: 'ask' }],
      look: (request) => {
        const result = request.messages.findLast(({ role }) => role === 'tool')?.text
        if (result !== undefined) listed = JSON.parse(result)
        return steps([{ toolCall: 'get_my_runs', input: {} }])(request) as ModelAction[]
      },
    })
    const waiting = await send('form')
    await parley.runWhen(waiting, 'WAITING_TOOL')
    await parley.runWhen(await send('look'))
    expect(Object.keys(listed.runs[0] ?? {})).toEqual(FIELDS)
    expect(listed.runs[0]).toMatchObject({
      runId: waiting,
      status: 'waiting_tool',
      triggerType: 'space_message',
      activeSpaceId: space.id,
    })
  })

  describe('an agent with a run in each state, and eleven queued runs', () => {
    const ids: Record<string, string> = {}
    const queued: string[] = []
    let seen: ModelRequest
    let listed: { runs: Record<string, unknown>[]; totalActive: number }[]
    let place: string

    const STATES = ['waiting_tool', 'completed', 'failed', 'canceled', 'running']
    const ASKED = [{}, { limit: 2 }, ...[...STATES, 'queued'].map((status) => ({ status }))]

    beforeAll(async () => {
      parley.models.reset()
      const { human, send, space } = await room({ maxConcurrentRuns: 2 })
      const [work, look] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const looks = () => ASKED.map((input) => ({ toolCall: 'get_my_runs', input }))
      play({
        waiting_tool: () => [{ toolCall: 'ask' }],
        failed: () => [{ error: 'Out of order', status: 400 }],
        canceled: () => [{ hang: true }],
        running: () => work.promise.then(() => [{ text: 'Done.' }]),
        look: ({ step }) => (step === 0 ? look.promise.then(looks) : [{ text: 'Seen.' }]),
      })
      for (const state of STATES) {
        const id = await send(state)
        ids[state] = id
        await parley.runWhen(id, state === 'canceled' ? 'RUNNING' : (state.toUpperCase() as RunStatus))
        if (state === 'canceled') await parley.app.domain.control.stopRun(human, { runId: id, cascade: false })
      }
      const looking = await send('look')
      await parley.runWhen(looking, 'RUNNING')
      for (let n = 0; n < 11; n++) queued.push(await send('queued'))
      look.resolve()
      seen = await parley.models.request(({ step }) => step === 1)
      listed = seen.messages.filter(({ role }) => role === 'tool').map(({ text }) => JSON.parse(text))
      place = space.name
      work.resolve()
      for (const id of [looking, ...queued]) await parley.runWhen(id)
    })

    const idsIn = (index: number) => listed[index]?.runs.map(({ runId }) => runId)

    test('get_my_runs returns ten runs by default, the latest first, and counts all of them', () => {
      expect([idsIn(0), idsIn(1)]).toEqual([queued.toReversed().slice(0, 10), queued.toReversed().slice(0, 2)])
      expect(listed.map(({ totalActive }) => totalActive)).toEqual(ASKED.map(() => 14))
    })

    test('get_my_runs filters by status, and returns the error of a failed run', () => {
      expect(STATES.map((_, index) => idsIn(index + 2))).toEqual(STATES.map((state) => [ids[state]]))
      expect(idsIn(STATES.length + 2)).toEqual(queued.toReversed().slice(0, 10))
      expect(listed[STATES.indexOf('failed') + 2]?.runs[0]?.['error']).toContain('Out of order')
    })

    test('ACTIVE RUNS lists runs that wait for a tool, run and are queued', () => {
      const lines = seen.instructions.split('ACTIVE RUNS:\n')[1]?.split('\n').slice(1) ?? []
      const lineOf = (id: string | undefined, state: string) =>
        `- Run ${id} (${state}) — Husam in "${place}": "${state}"`
      expect(lines).toEqual([
        ...['waiting_tool', 'running'].map((state) => lineOf(ids[state], state)),
        ...queued.map((id) => lineOf(id, 'queued')),
      ])
    })
  })

  describe('the rules of deduplication', () => {
    test('1: a running run of the same message: skipped', async () => {
      const { human, space } = await room()
      play({ once: () => [{ text: 'Done.' }] })
      const input = { spaceId: space.id, text: 'once', idempotencyKey: 'once' }
      const sent = await Promise.all(Array.from({ length: 10 }, () => parley.app.domain.sending.send(human, input)))
      expect(new Set(sent.flatMap(({ runs }) => runs.map(({ id }) => id))).size).toBe(1)
    })

    test('2: during a waiting_tool run new triggers are allowed', async () => {
      const { send } = await room({ maxConcurrentRuns: 1 })
      play({ form: () => [{ toolCall: 'ask' }] })
      await parley.runWhen(await send('form'), 'WAITING_TOOL')
      expect(await parley.runWhen(await send('another matter'))).toMatchObject({ status: 'COMPLETED' })
    })

    test('3: several concurrent runs are allowed, and each sees the others', async () => {
      const { send } = await room()
      const hold = Promise.withResolvers<void>()
      play({ one: () => hold.promise.then(() => [{ text: 'One.' }]), two: () => [{ text: 'Two.' }] })
      const one = await send('one')
      await parley.runWhen(one, 'RUNNING')
      await parley.runWhen(await send('two'))
      const seen = await parley.models.request(({ messages }) =>
        (messages.find(({ role }) => role === 'user')?.text.split('\n')[1] ?? '').includes('two'),
      )
      expect(seen.instructions).toContain(`- Run ${one} (running)`)
      hold.resolve()
      await parley.runWhen(one)
    })
  })

  describe('the table of lifecycle events', () => {
    test('run.started, run.waiting_tool, run.resumed, run.completed', async () => {
      const { human, send } = await room()
      play({ form: (request) => steps([{ toolCall: 'ask' }], [{ text: 'Thanks.' }])(request) as ModelAction[] })
      const id = await send('form')
      await parley.runWhen(id, 'WAITING_TOOL')
      const [call] = (await parley.app.domain.toolCalls.ofRuns([id])).get(id) ?? []
      await parley.app.domain.control.submitToolResult(human, { toolCallId: call?.id ?? '', result: 'yes' })
      await parley.runWhen(id)
      const events = (await parley.eventsOf(id)).filter((type) =>
        /^Run(Started|WaitingTool|Resumed|Completed)$/.test(type),
      )
      expect(events).toEqual(['RunStarted', 'RunWaitingTool', 'RunResumed', 'RunCompleted'])
    })

    test('run.failed', async () => {
      const { send } = await room()
      play({ go: () => [{ error: 'Out of order', status: 400 }] })
      const id = await send('go')
      await parley.runWhen(id)
      expect(await parley.eventsOf(id)).toEqual(['RunStarted', 'RunFailed'])
    })

    test('run.canceled', async () => {
      const { human, send } = await room()
      play({ go: () => [{ hang: true }] })
      const id = await send('go')
      await parley.models.request(() => true)
      await parley.app.domain.control.stopRun(human, { runId: id, cascade: false })
      expect((await parley.eventsOf(id)).at(-1)).toBe('RunCanceled')
    })

    test('agent.active and agent.inactive: published whenever a run of the agent starts, pauses or ends', async () => {
      const { agent, send } = await room()
      let told = 0
      const leave = await parley.app.platform.signals.subscribe(`agent:${agent.id}`, () => {
        told += 1
      })
      play({ form: () => [{ toolCall: 'ask' }] })
      await parley.runWhen(await send('form'), 'WAITING_TOOL')
      await until('queued, started and paused are published', () => told >= 3)
      leave()
    })
  })

  test('the table of limits: 5 concurrent runs, 10 minutes of waiting, 30 minutes in all', async () => {
    const { agent, send } = await room()
    const { limits } = parley.app.platform.config
    expect(limits).toMatchObject({ toolWaitSeconds: 600, maxRunSeconds: 1800 })
    const [found] = await parley.app.domain.agents.getMany([agent.id])
    expect(found?.maxConcurrentRuns).toBe(5)
    play({ form: () => [{ toolCall: 'ask' }] })
    const id = await send('form')
    await parley.runWhen(id, 'WAITING_TOOL')
    const [call] = (await parley.app.domain.toolCalls.ofRuns([id])).get(id) ?? []
    const waitMs = (call?.expiresAt?.getTime() ?? 0) - (call?.createdAt.getTime() ?? 0)
    // Measured from the statement that shows the call, which comes after the statement that journals it.
    expect(waitMs / 1000).toBeGreaterThanOrEqual(599)
    expect(waitMs / 1000).toBeLessThan(610)
  })
})
