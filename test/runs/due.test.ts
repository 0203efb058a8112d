import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createCore } from '../../src/app/core.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { hasPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const ASK = {
  name: 'ask',
  description: 'Asks the members.',
  inputSchema: { type: 'object' },
  execution: 'SPACE' as const,
}
const RUNS = 20

/** The model calls a tool or hangs, as the last message requests, and ends after a result. */
function askOrHang(parley: TestApplication): void {
  parley.models.script(({ messages, step }) => {
    if (step > 0) return [{ text: 'Noted.' }]
    return messages.at(-1)?.text.includes('hang') ? [{ hang: true }] : [{ toolCall: 'ask' }]
  })
}

describe.skipIf(!hasPostgres)('time limits', () => {
  const opened: TestApplication[] = []
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((parley) => parley.close()))
  })

  async function open(options: Omit<Parameters<typeof startApplication>[0], 'stack'>): Promise<TestApplication> {
    const parley = await startApplication({ stack: 'postgres', ...options })
    opened.push(parley)
    return parley
  }

  const begin = async (
    parley: TestApplication,
    human: Awaited<ReturnType<TestApplication['human']>>,
    spaceId: string,
    text: string,
  ) => (await parley.send(human, spaceId, text)).runs[0]?.id ?? ''

  describe.each([
    ['2 s behind', -2000],
    ['2 s ahead', 2000],
  ])('when the clock of the process is %s', (_, skewMs) => {
    const clock = { now: () => Date.now() + skewMs }

    test(`${RUNS} of ${RUNS} calls time out`, async () => {
      const parley = await open({ clock, settings: { PARLEY_TOOL_WAIT_SECONDS: '1' } })
      const { human, space } = await parley.room('Ada', { tools: [ASK], maxConcurrentRuns: RUNS })
      askOrHang(parley)
      const ids = await Promise.all(Array.from({ length: RUNS }, () => begin(parley, human, space.id, 'Ask')))
      for (const id of ids) expect(await parley.runWhen(id)).toMatchObject({ status: 'COMPLETED', summary: 'Noted.' })
      const calls = [...(await parley.app.domain.toolCalls.ofRuns(ids)).values()].flat()
      expect(calls.map(({ status }) => status)).toEqual(Array(RUNS).fill('TIMED_OUT'))
    })

    test(`${RUNS} of ${RUNS} runs fail at the time limit, and cancel their model calls`, async () => {
      const parley = await open({ clock, settings: { PARLEY_MAX_RUN_SECONDS: '3' } })
      const { human, space } = await parley.room('Ada', { maxConcurrentRuns: RUNS })
      askOrHang(parley)
      const ids = await Promise.all(Array.from({ length: RUNS }, () => begin(parley, human, space.id, 'Please hang')))
      for (const id of ids) {
        const run = await parley.runWhen(id)
        expect(run).toMatchObject({ status: 'FAILED', error: expect.stringContaining('3 s') })
        expect(Number(run.finishedAt) - Number(run.startedAt)).toBeGreaterThanOrEqual(3000)
      }
      const ends = await Promise.all(parley.models.requests.map(({ ended }) => ended))
      expect(new Set(ends)).toEqual(new Set(['aborted']))
    })
  })

  test('a call times out even if every worker slot is in use', async () => {
    const settings = { PARLEY_WORKER_CONCURRENCY: '1', PARLEY_TOOL_WAIT_SECONDS: '1' }
    const parley = await open({ settings })
    const { human, space } = await parley.room('Ada', { tools: [ASK] })
    askOrHang(parley)
    const asking = await begin(parley, human, space.id, 'Ask')
    await parley.runWhen(asking, 'WAITING_TOOL')
    const busy = await parley.room('Bob')
    const hanging = await begin(parley, busy.human, busy.space.id, 'Please hang')
    await parley.runWhen(hanging, 'RUNNING')
    const calls = async () => (await parley.app.domain.toolCalls.ofRuns([asking])).get(asking) ?? []
    await until('the call has timed out', async () => (await calls())[0]?.status === 'TIMED_OUT')
    expect(await parley.run(hanging)).toMatchObject({ status: 'RUNNING' })
    await parley.app.domain.control.stopRun(busy.human, { runId: hanging, cascade: false })
    expect(await parley.runWhen(asking)).toMatchObject({ status: 'COMPLETED' })
  })

  test('a run’s time limit is suspended while it waits for a tool with its own time limit', async () => {
    const parley = await open({ settings: { PARLEY_MAX_RUN_SECONDS: '4', PARLEY_TOOL_WAIT_SECONDS: '60' } })
    const patient = await parley.room('Ada', { tools: [{ ...ASK, timeoutMs: 6000 }] })
    const hasty = await parley.room('Bob', { tools: [ASK] })
    askOrHang(parley)
    const [waits, fails] = await Promise.all([
      begin(parley, patient.human, patient.space.id, 'Ask'),
      begin(parley, hasty.human, hasty.space.id, 'Ask'),
    ])
    expect(await parley.runWhen(fails)).toMatchObject({ status: 'FAILED', error: expect.stringContaining('4 s') })
    const run = await parley.runWhen(waits)
    expect(run).toMatchObject({ status: 'COMPLETED', summary: 'Noted.' })
    expect(Number(run.finishedAt) - Number(run.startedAt)).toBeGreaterThan(5500)
  })

  test('a run of a dead process also ends in time, and its agent gets the slot back', async () => {
    const dead = await open({ worker: false, settings: { PARLEY_MAX_RUN_SECONDS: '2' } })
    const { human, space } = await dead.room('Ada', { maxConcurrentRuns: 1 })
    const run = await begin(dead, human, space.id, 'Hello')
    expect((await createCore(dead.app.platform).lifecycle.claim(1)).claims).toHaveLength(1)
    const alive = await open({ beside: dead, settings: { PARLEY_MAX_RUN_SECONDS: '2' } })
    alive.models.script(() => [{ text: 'Here.' }])
    const next = await begin(alive, human, space.id, 'And now?')
    expect(await alive.runWhen(run)).toMatchObject({ status: 'FAILED', error: expect.stringContaining('2 s') })
    expect(await alive.runWhen(next)).toMatchObject({ status: 'COMPLETED' })
    opened.reverse()
  })
})

describe.skipIf(!hasPostgres)('a stop between the claim and the start of the work', () => {
  let parley: TestApplication
  let held: (() => void)[] = []
  let holds = false

  beforeAll(async () => {
    const racepoint = () => new Promise<void>((resolve) => (holds ? held.push(resolve) : resolve()))
    parley = await startApplication({ stack: 'postgres', racepoint, settings: { PARLEY_WORKER_CONCURRENCY: '1' } })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  test('cancels the model call and releases the slot, three times of three', async () => {
    const { human, space } = await parley.room('Ada')
    parley.models.script(({ messages }) =>
      messages.at(-1)?.text.includes('hang') ? [{ hang: true }] : [{ text: 'Yes.' }],
    )
    for (let n = 0; n < 3; n++) {
      holds = true
      const { runs } = await parley.send(human, space.id, `Please hang ${n}`)
      const runId = runs[0]?.id ?? ''
      await until('the worker is paused', () => held.length === 1)
      expect(await parley.run(runId)).toMatchObject({ status: 'RUNNING' })
      await parley.app.domain.control.stopRun(human, { runId, cascade: false })
      holds = false
      for (const release of held.splice(0)) release()
    }
    const other = await parley.room('Bob')
    const { runs } = await parley.send(other.human, other.space.id, 'Are you there?')
    expect(await parley.runWhen(runs[0]?.id ?? '')).toMatchObject({ status: 'COMPLETED' })
    expect(parley.models.requests.filter(({ messages }) => messages.at(-1)?.text.includes('hang'))).toEqual([])
    held = []
  })
})

/** Longer than a poll per second on a busy machine, and shorter than the minute after which a silent model is abandoned. */
const HEARD_WITHIN = { timeoutMs: 10_000 }

describe.skipIf(!hasPostgres)('a stop whose signal was lost', () => {
  test('still works: the model call is canceled', async () => {
    const parley = await startApplication({ stack: 'postgres' })
    const { human, space } = await parley.room('Ada')
    parley.models.script(() => [{ hang: true }])
    const { runs } = await parley.send(human, space.id, 'Please hang')
    const request = await parley.models.request(() => true)
    const { signals } = parley.app.platform
    const { publish } = signals
    signals.publish = async (channel, payload) => (channel === 'runs' ? undefined : publish(channel, payload))
    await parley.app.domain.control.stopRun(human, { runId: runs[0]?.id ?? '', cascade: false })
    let end = ''
    void request.ended.then((reason) => {
      end = reason
    })
    await until('the model request is canceled', () => end === 'aborted', HEARD_WITHIN)
    await parley.close()
  })
})
