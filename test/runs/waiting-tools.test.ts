import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ServiceViewer } from '../../src/access/viewer.ts'
import type { ToolInput } from '../../src/agents/custom-tools.ts'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { type ModelRequest, steps } from '../support/model-server-script.ts'

const SCHEMA = { type: 'object', properties: { question: { type: 'string' } }, required: ['question'] }
const ASK: ToolInput = { name: 'ask', description: 'Asks the members.', inputSchema: SCHEMA, execution: 'SPACE' }
const LOOK_UP: ToolInput = {
  name: 'look_up',
  description: 'Asks a worker outside.',
  inputSchema: SCHEMA,
  execution: 'EXTERNAL',
}
const CHART: ToolInput = {
  name: 'chart',
  description: 'Draws.',
  inputSchema: { type: 'object' },
  execution: 'INTERNAL',
  visible: true,
}

describe.each(RULE_STACKS)('waiting tools, on the %s stack', (stack) => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const room = (tools: ToolInput[]) => parley.room('Ada', { tools })

  const submit = (
    viewer: Parameters<typeof parley.app.domain.control.submitToolResult>[0],
    toolCallId: string,
    result: unknown,
  ) => parley.app.domain.control.submitToolResult(viewer, { toolCallId, result })

  const waitingOf = async (runId: string) =>
    (await parley.app.domain.toolCalls.ofRuns([runId])).get(runId)?.filter(({ status }) => status === 'WAITING') ?? []

  /** Returns the results in the prompt of the second generation. */
  const resultsIn = (request: ModelRequest) =>
    request.messages.filter(({ role }) => role === 'tool').map(({ text }) => text)

  test('a SPACE call pauses the run as WAITING_TOOL, shows as REQUIRES_ACTION, and a member answers it', async () => {
    const { human, space } = await room([ASK])
    parley.models.script(
      steps(
        [{ toolCall: 'ask', input: { question: 'Go?' } }],
        [{ toolCall: 'send_message', input: { text: 'Going.' } }],
      ),
    )
    const { runs } = await parley.send(human, space.id, 'Ask me')
    const run = await parley.runWhen(runs[0]?.id ?? '', 'WAITING_TOOL')
    const [call] = await waitingOf(run.id)
    expect(call).toMatchObject({ toolName: 'ask', status: 'WAITING', input: { question: 'Go?' }, spaceId: space.id })
    expect(call?.expiresAt?.getTime()).toBeGreaterThan(Date.now() + 590_000)
    expect((await parley.messages(space.id))[1]).toMatchObject({
      status: 'REQUIRES_ACTION',
      parts: [{ type: 'tool', toolCallId: call?.id }],
    })
    expect(await parley.app.domain.control.pendingToolCalls(human)).toMatchObject([{ id: call?.id }])
    expect(await submit(human, call?.id ?? '', { yes: true })).toMatchObject({ status: 'DONE', output: { yes: true } })
    expect(await parley.runWhen(run.id)).toMatchObject({ status: 'COMPLETED' })
    expect((await parley.messages(space.id)).map(({ status }) => status)).toEqual(['COMPLETE', 'COMPLETE', 'COMPLETE'])
    const lifecycle = (await parley.eventsOf(run.id)).filter((type) =>
      /^Run(Started|WaitingTool|Resumed|Completed)$/.test(type),
    )
    expect(lifecycle).toEqual(['RunStarted', 'RunWaitingTool', 'RunResumed', 'RunCompleted'])
    expect(resultsIn(await parley.models.request(({ step }) => step === 1))).toEqual(['{"yes":true}'])
    expect(parley.models.refusals).toEqual([])
  })

  test.each([[false], [0], [''], [null], [[]]])('the falsy result %j counts as a result', async (result) => {
    const { human, space } = await room([ASK])
    parley.models.script(steps([{ toolCall: 'ask', input: { question: 'Well?' } }], [{ text: 'Noted.' }]))
    const { runs } = await parley.send(human, space.id, 'Ask me')
    const run = await parley.runWhen(runs[0]?.id ?? '', 'WAITING_TOOL')
    const [call] = await waitingOf(run.id)
    expect((await submit(human, call?.id ?? '', result)).output).toEqual(result)
    expect(await parley.runWhen(run.id)).toMatchObject({ status: 'COMPLETED' })
    const [told] = resultsIn(await parley.models.request(({ step }) => step === 1))
    expect(told).toBe(typeof result === 'string' ? result : JSON.stringify(result))
  })

  test('several calls of one step get results in any order from different people, and each result reaches its call', async () => {
    const { human, space } = await room([ASK])
    const other = await parley.human('Ahmad')
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: other.id })
    const questions = ['A', 'B', 'C', 'D', 'E']
    parley.models.script(
      steps(
        questions.map((question) => ({ toolCall: 'ask', input: { question } })),
        [{ text: 'Thanks.' }],
      ),
    )
    const { runs } = await parley.send(human, space.id, 'Ask us')
    const run = await parley.runWhen(runs[0]?.id ?? '', 'WAITING_TOOL')
    const calls = await waitingOf(run.id)
    expect(calls.map(({ input }) => input)).toEqual(questions.map((question) => ({ question })))
    for (const index of [3, 0, 4, 1, 2]) {
      const call = calls[index]
      await submit(index % 2 === 0 ? human : other, call?.id ?? '', `answer ${questions[index]}`)
    }
    await parley.runWhen(run.id)
    expect(resultsIn(await parley.models.request(({ step }) => step === 1))).toEqual(
      questions.map((question) => `answer ${question}`),
    )
  })

  test('50 concurrent submissions of one result: one counts, the others get ConflictError', async () => {
    const { human, space } = await room([ASK])
    parley.models.script(steps([{ toolCall: 'ask', input: { question: 'Which?' } }], [{ text: 'OK.' }]))
    const { runs } = await parley.send(human, space.id, 'Ask me')
    const run = await parley.runWhen(runs[0]?.id ?? '', 'WAITING_TOOL')
    const [call] = await waitingOf(run.id)
    const results = await Promise.allSettled(Array.from({ length: 50 }, (_, n) => submit(human, call?.id ?? '', n)))
    const counted = results.filter((result) => result.status === 'fulfilled')
    expect(counted).toHaveLength(1)
    for (const result of results)
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'CONFLICT' })
    await parley.runWhen(run.id)
    expect(parley.models.requests.filter(({ step }) => step === 1)).toHaveLength(1)
  })

  test('only a service with a grant for the agent sees and answers an EXTERNAL call', async () => {
    const { human, agent, space } = await room([LOOK_UP])
    const service: ServiceViewer = {
      scope: 'SERVICE',
      id: 'acc_a',
      name: 'crm',
      agentIds: [agent.id],
      tokenId: null,
      expiresAt: null,
    }
    const stranger: ServiceViewer = { ...service, id: 'acc_b', agentIds: [] }
    parley.models.script(steps([{ toolCall: 'look_up', input: { question: 'Who?' } }], [{ text: 'Found.' }]))
    const { runs } = await parley.send(human, space.id, 'Look it up')
    const run = await parley.runWhen(runs[0]?.id ?? '', 'WAITING_TOOL')
    const [call] = await waitingOf(run.id)
    expect(await parley.app.domain.control.pendingToolCalls(service)).toMatchObject([{ id: call?.id }])
    await expect(submit(stranger, call?.id ?? '', 1)).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await expect(submit(human, call?.id ?? '', 1)).rejects.toMatchObject({ code: 'FORBIDDEN' })
    await submit(service, call?.id ?? '', { name: 'Sarah' })
    expect(await parley.runWhen(run.id)).toMatchObject({ status: 'COMPLETED' })
    expect((await parley.messages(space.id)).length).toBe(1)
  })

  test('a visible INTERNAL call shows as a part and returns its input', async () => {
    const { human, space } = await room([CHART])
    parley.models.script(steps([{ toolCall: 'chart', input: { bars: [1, 2] } }], [{ text: 'Drawn.' }]))
    const { runs } = await parley.send(human, space.id, 'Draw')
    await parley.runWhen(runs[0]?.id ?? '')
    const [, message] = await parley.messages(space.id)
    const [call] = (await parley.app.domain.toolCalls.ofRuns([runs[0]?.id ?? ''])).get(runs[0]?.id ?? '') ?? []
    expect(message).toMatchObject({ status: 'COMPLETE', parts: [{ type: 'tool', toolCallId: call?.id }] })
    expect(call).toMatchObject({ status: 'DONE', output: { bars: [1, 2] } })
  })

  test.each(['admin', 'member'])(
    'the %s cannot submit the result of a call that the server executes itself',
    async (who) => {
      const { human, space } = await room([CHART])
      parley.models.script(steps([{ toolCall: 'chart', input: {} }], [{ text: 'Drawn.' }]))
      const { runs } = await parley.send(human, space.id, 'Draw')
      const run = await parley.runWhen(runs[0]?.id ?? '')
      const [call] = (await parley.app.domain.toolCalls.ofRuns([run.id])).get(run.id) ?? []
      await expect(submit(who === 'admin' ? parley.admin : human, call?.id ?? '', 1)).rejects.toThrow(
        'The server executes this call itself: no result can be submitted.',
      )
    },
  )

  test('an invalid input of a visible tool is returned to the model and shows as a FAILED part', async () => {
    const { human, space } = await room([ASK])
    parley.models.script(steps([{ toolCall: 'ask', input: { wrong: 1 } }], [{ text: 'Sorry.' }]))
    const { runs } = await parley.send(human, space.id, 'Ask')
    expect(await parley.runWhen(runs[0]?.id ?? '')).toMatchObject({ status: 'COMPLETED' })
    const [call] = (await parley.app.domain.toolCalls.ofRuns([runs[0]?.id ?? ''])).get(runs[0]?.id ?? '') ?? []
    expect(call).toMatchObject({ status: 'FAILED', output: { error: { code: 'BAD_INPUT' } } })
    expect((await parley.messages(space.id))[1]).toMatchObject({
      status: 'COMPLETE',
      parts: [{ type: 'tool', toolCallId: call?.id }],
    })
  })

  test('stopping a waiting run cancels its calls: a later result is a ConflictError', async () => {
    const { human, space } = await room([ASK])
    parley.models.script(steps([{ toolCall: 'ask', input: { question: 'Still?' } }]))
    const { runs } = await parley.send(human, space.id, 'Ask')
    const run = await parley.runWhen(runs[0]?.id ?? '', 'WAITING_TOOL')
    const [call] = await waitingOf(run.id)
    await parley.app.domain.control.stopRun(human, { runId: run.id, cascade: false })
    await expect(submit(human, call?.id ?? '', 1)).rejects.toMatchObject({ code: 'CONFLICT' })
    expect((await parley.app.domain.toolCalls.getMany([call?.id ?? '']))[0]).toMatchObject({ status: 'CANCELED' })
    expect((await parley.messages(space.id))[1]).toMatchObject({ status: 'INTERRUPTED' })
    expect((await parley.eventsOf(run.id)).at(-1)).toBe('RunCanceled')
  })
})

describe('the deadlines of waiting', () => {
  let parley: TestApplication
  afterAll(() => parley?.close())

  test('a call without a result in time gives the model a typed result, and the run continues', async () => {
    parley = await startApplication({ settings: { PARLEY_TOOL_WAIT_SECONDS: '1' } })
    const { human, space } = await parley.room('Ada', { tools: [ASK] })
    parley.models.script(steps([{ toolCall: 'ask', input: { question: 'Anybody?' } }], [{ text: 'Nobody.' }]))
    const { runs } = await parley.send(human, space.id, 'Ask')
    expect(await parley.runWhen(runs[0]?.id ?? '')).toMatchObject({ status: 'COMPLETED' })
    const [call] = (await parley.app.domain.toolCalls.ofRuns([runs[0]?.id ?? ''])).get(runs[0]?.id ?? '') ?? []
    expect(call).toMatchObject({ status: 'TIMED_OUT', output: { error: { code: 'TIMED_OUT' } } })
    const request = await parley.models.request(({ step }) => step === 1)
    expect(request.messages.find(({ role }) => role === 'tool')?.text).toContain('TIMED_OUT')
  })
})

describe('the time limit of a run', () => {
  let parley: TestApplication
  afterAll(() => parley?.close())

  test('ends the run after PARLEY_MAX_RUN_SECONDS, including the time of waiting', async () => {
    parley = await startApplication({ settings: { PARLEY_MAX_RUN_SECONDS: '2' } })
    const { human, space } = await parley.room('Ada', { tools: [ASK] })
    parley.models.script(({ messages }) =>
      messages.at(-1)?.text.includes('hang') ? [{ hang: true }] : [{ toolCall: 'ask', input: { question: '?' } }],
    )
    const waiting = await parley.send(human, space.id, 'Ask')
    const hanging = await parley.send(human, space.id, 'Please hang')
    for (const { runs } of [waiting, hanging]) {
      const run = await parley.runWhen(runs[0]?.id ?? '')
      expect(run).toMatchObject({ status: 'FAILED' })
      expect(run.error).toContain('2 s')
    }
  })
})
