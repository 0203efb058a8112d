import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ToolInput } from '../../../src/agents/custom-tools.ts'
import { startApplication, type TestApplication } from '../../support/application.ts'
import { forAgent, type ModelAction, type ModelRequest, steps, when } from '../../support/model-server-script.ts'
import { hasPostgres } from '../../support/postgres.ts'
import { callsOf, gate, runsOf, spaceToolsRoom } from '../../support/space-tools.ts'
import { until } from '../../support/until.ts'

const CONFIRM: ToolInput = {
  name: 'showConfirmation',
  description: 'Asks the members.',
  inputSchema: { type: 'object', properties: {} },
  execution: 'SPACE',
}

/** Returns the trigger in the only user message of a run. */
const wokenBy = (text: string) => (request: ModelRequest) =>
  request.messages
    .find(({ role }) => role === 'user')
    ?.text.split(/RECENT/)[0]
    ?.includes(text) ?? false

describe.skipIf(!hasPostgres)('getMyRuns and the notice of other runs', () => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack: 'postgres' })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  /**
   * Ada is in Husam's space and in another one. One of her runs was triggered by a plan and waits for a reply, and another one
   * asks Husam.
   */
  async function busyAgent() {
    const room = await spaceToolsRoom(parley, {
      input: { tools: [CONFIRM], model: 'openai:test' },
      space: { name: "Husam's Chat" },
    })
    const { agents, space, human } = room
    const [ada] = agents
    const finance = await parley.space(human, [ada?.id ?? ''], { name: 'Finance', routing: 'ADMIN' })
    const wait = { for: [{ type: 'agent' }], timeout: 120 }
    const report: ModelAction[][] = [
      [{ reasoning: 'Compiling morning report from engineering and finance data...' }, readFrom(finance.id)],
      [
        { text: "Good morning! Here's today's standup:" },
        { toolCall: 'sendSpaceMessage', input: { spaceId: finance.id, text: 'Numbers?', wait } },
      ],
    ]
    const options: ModelAction[][] = [
      [
        { text: "I've prepared the options for you:" },
        { toolCall: 'showConfirmation', input: { targetSpaceId: space.id } },
      ],
    ]
    parley.models.script(forAgent('Ada', when(wokenBy('Morning Report'), steps(...report))))
    parley.models.script(forAgent('Ada', when(wokenBy('What are my options?'), steps(...options))))
    await parley.app.domain.plans.create(parley.admin, {
      agentId: ada?.id ?? '',
      name: 'Morning Report',
      instruction: 'Compile the morning report.',
      schedule: { at: new Date(Date.now() + 200) },
    })
    const planRun = await until('the plan has fired', async () => (await runsOf(parley, ada?.id ?? ''))[0])
    await until(
      'it waits',
      async () => ((await callsOf(parley, planRun.id))[1]?.state as { wait?: object } | null)?.wait,
    )
    const asking = await parley.send(human, space.id, 'What are my options?')
    const askingRun = await parley.runWhen(asking.runs[0]?.id ?? '', 'WAITING_TOOL')
    return { ...room, ada, finance, planRun: await parley.run(planRun.id), askingRun }
  }

  const readFrom = (spaceId: string): ModelAction => ({ toolCall: 'readSpaceMessages', input: { spaceId } })

  /** Returns the results of getMyRuns for each of the inputs, in a run that the human's message triggers. */
  async function look(room: Awaited<ReturnType<typeof busyAgent>>, ...inputs: object[]) {
    const calls = inputs.map((input) => ({ toolCall: 'getMyRuns', input }))
    parley.models.script(forAgent('Ada', when(wokenBy('Are you busy?'), steps(calls))))
    const { runs } = await parley.send(room.human, room.space.id, 'Are you busy?')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    return { run, outputs: (await callsOf(parley, run.id)).map(({ output }) => output) }
  }

  test('returns the seed’s fields: this run separately, the others with trigger, status and progress', async () => {
    const room = await busyAgent()
    const { planRun, askingRun } = room
    const { run, outputs } = await look(room, {})
    expect(outputs).toEqual([
      {
        currentRunId: run.id,
        otherActiveRuns: [
          {
            runId: planRun.id,
            triggerType: 'plan',
            triggerSource: 'Morning Report',
            about: 'The plan "Morning Report": "Compile the morning report."',
            status: 'running',
            startedAt: planRun.startedAt?.toISOString(),
            progress: {
              toolsCalled: ['readSpaceMessages', 'sendSpaceMessage (waiting for reply)'],
              textGenerated: "Good morning! Here's today's standup:",
              reasoning: 'Compiling morning report from engineering and finance data...',
              said: 'Numbers?',
            },
          },
          {
            runId: askingRun.id,
            triggerType: 'space_message',
            triggerSource: "Husam in Husam's Chat",
            about: 'Husam in "Husam\'s Chat": "What are my options?"',
            status: 'waiting_tool',
            startedAt: askingRun.startedAt?.toISOString(),
            progress: {
              toolsCalled: ['showConfirmation (waiting for user input)'],
              textGenerated: "I've prepared the options for you:",
              reasoning: null,
            },
          },
        ],
      },
    ])
    await parley.app.domain.control.stopRun(parley.admin, { runId: planRun.id, cascade: false })
    await parley.app.domain.control.stopRun(parley.admin, { runId: askingRun.id, cascade: false })
  })

  test('can be filtered by a status and by a trigger space', async () => {
    const room = await busyAgent()
    const { planRun, askingRun, space, finance } = room
    const { outputs } = await look(
      room,
      { status: 'running' },
      { status: 'waiting_tool' },
      { status: 'queued' },
      { status: 'all' },
      { triggerSpaceId: space.id },
      { triggerSpaceId: finance.id },
    )
    const ids = outputs.map((output) =>
      (output as unknown as { otherActiveRuns: { runId: string }[] }).otherActiveRuns.map(({ runId }) => runId),
    )
    expect(ids).toEqual([[planRun.id], [askingRun.id], [], [planRun.id, askingRun.id], [askingRun.id], []])
    await parley.app.domain.control.stopRun(parley.admin, { runId: planRun.id, cascade: false })
    await parley.app.domain.control.stopRun(parley.admin, { runId: askingRun.id, cascade: false })
  })

  test.each([
    ['says', (text: string) => ({ text }), 'RunTextDelta', 'textGenerated'],
    ['thinks', (reasoning: string) => ({ reasoning }), 'RunReasoningDelta', 'reasoning'],
  ])('the current %s of a run comes from its event log, cut at about 200', async (_, writes, event, shown) => {
    const { human, agents, space } = await spaceToolsRoom(parley, { input: { model: 'openai:test' } })
    const hold = gate()
    const long = 'word '.repeat(100).trim()
    parley.models.script(
      forAgent(
        'Ada',
        when(wokenBy('Write'), () => [{ ...writes(`${long}!`), chunks: [long, hold.promise, '!'] }]),
      ),
    )
    const writing = await parley.send(human, space.id, 'Write')
    await until('the text streams', async () => (await parley.eventsOf(writing.runs[0]?.id ?? '')).includes(event))
    parley.models.script(forAgent('Ada', when(wokenBy('Busy?'), steps([{ toolCall: 'getMyRuns' }]))))
    const { runs } = await parley.send(human, space.id, 'Busy?')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    const [call] = await callsOf(parley, run.id)
    const output = call?.output as { otherActiveRuns: { progress: Record<string, string> }[] } | undefined
    const other = output?.otherActiveRuns[0]
    expect(other?.progress[shown]).toBe(`${long.slice(0, 200)}...`)
    expect(agents).toHaveLength(1)
    hold.open()
    await parley.runWhen(writing.runs[0]?.id ?? '')
  })

  test('the prompt of a run lists the other runs with their start and activity', async () => {
    const room = await busyAgent()
    const { planRun, askingRun } = room
    await look(room, {})
    const request = await parley.models.request(wokenBy('Are you busy?'))
    const notice = request.instructions.slice(request.instructions.indexOf('⚠')).split('\n').slice(0, 4)
    expect(notice).toEqual([
      '⚠ You currently have 2 other active runs:',
      expect.stringMatching(
        new RegExp(
          `^- ${planRun.id} \\(plan: Morning Report, running, started \\d{4}-\\S+Z\\) — waiting on sendSpaceMessage reply$`,
        ),
      ),
      expect.stringMatching(
        new RegExp(
          `^- ${askingRun.id} \\(message: Husam in Husam's Chat, in this space, waiting_tool, started \\d{4}-\\S+Z\\) — waiting on showConfirmation input$`,
        ),
      ),
      'Use getMyRuns for full details if needed. Avoid duplicating work already in progress.',
    ])
    await parley.app.domain.control.stopRun(parley.admin, { runId: planRun.id, cascade: false })
    await parley.app.domain.control.stopRun(parley.admin, { runId: askingRun.id, cascade: false })
  })

  test('the oldest unfinished run comes first, even if many runs have been queued since', async () => {
    const { human, agents, space } = await spaceToolsRoom(parley, { input: { maxConcurrentRuns: 2 } })
    const [hold, look] = [gate(), gate()]
    parley.models.script(() => [{ text: 'Nothing to do.' }])
    parley.models.script(forAgent('Ada', when(wokenBy('Report'), steps([{ gate: hold.promise }]))))
    const looking = steps([{ gate: look.promise }, { toolCall: 'getMyRuns', input: {} }])
    parley.models.script(forAgent('Ada', when(wokenBy('Busy?'), looking)))
    const [first] = (await parley.send(human, space.id, 'Report')).runs
    const [second] = (await parley.send(human, space.id, 'Busy?')).runs
    await parley.runWhen(first?.id ?? '', 'RUNNING')
    await parley.runWhen(second?.id ?? '', 'RUNNING')
    const trigger = { agentId: agents[0]?.id ?? '', serviceName: 'cron', payload: {} }
    for (let n = 0; n < 60; n++) await parley.app.domain.control.triggerAgent(parley.admin, trigger)
    look.open()
    await parley.runWhen(second?.id ?? '')
    const [call] = await callsOf(parley, second?.id ?? '')
    const output = call?.output as { otherActiveRuns: object[] } | undefined
    expect(output?.otherActiveRuns[0]).toMatchObject({ runId: first?.id, status: 'running' })
    expect(output?.otherActiveRuns).toHaveLength(50)
    hold.open()
    await until('all have ended', async () =>
      (await runsOf(parley, agents[0]?.id ?? '')).every(({ status }) => status === 'COMPLETED'),
    )
  })

  test('an agent without other runs gets no notice', async () => {
    const { human, space } = await spaceToolsRoom(parley)
    parley.models.script(() => [{ text: 'Fine.' }])
    const { runs } = await parley.send(human, space.id, 'Hello')
    await parley.runWhen(runs[0]?.id ?? '')
    expect((await parley.models.request(() => true)).instructions).not.toContain('⚠')
  })
})
