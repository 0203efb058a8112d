import { describe, expect, test } from 'vitest'
import type { ServiceViewer } from '../../src/access/viewer.ts'
import type { ToolInput } from '../../src/agents/custom-tools.ts'
import { createDeferred } from '../../src/lib/async.ts'
import { RULE_STACKS, type TestApplication } from '../support/application.ts'
import { playMinds } from '../support/minds.ts'
import { type ModelRequest, steps } from '../support/model-server-script.ts'
import { imbalanceOf, inboxIn, skip, spaceIn, type Thinking } from '../support/thinking.ts'
import { until } from '../support/until.ts'

const SCHEMA = { type: 'object', properties: { question: { type: 'string' } }, required: ['question'] }
const APPROVE: ToolInput = {
  name: 'approve',
  description: 'Asks the members.',
  inputSchema: SCHEMA,
  execution: 'SPACE',
  visible: true,
}
const LOOK_UP: ToolInput = {
  name: 'look_up',
  description: 'Asks a worker.',
  inputSchema: SCHEMA,
  execution: 'EXTERNAL',
}

/** Requirement 004, "Async Tool Completion". */
describe.each(RULE_STACKS)('asynchronous tools of a persistent agent, on the %s stack', (stack) => {
  let parley: TestApplication
  let thinking: Thinking
  playMinds(stack, (opened) => {
    ;({ parley, thinking } = opened)
  })

  const room = (tools: ToolInput[]) => parley.room('Ada', { mind: 'PERSISTENT', tools }, { name: 'Family' })

  const submit = (
    viewer: Parameters<typeof parley.app.domain.control.submitToolResult>[0],
    toolCallId: string,
    result: unknown,
  ) => parley.app.domain.control.submitToolResult(viewer, { toolCallId, result })

  const callOf = (agentId: string) =>
    until('a call waits', () =>
      parley.app.platform.db.prisma.toolCall.findFirst({ where: { agentId, status: 'WAITING' } }),
    )

  const worker = async (agentId: string): Promise<ServiceViewer> => {
    const { secret } = await parley.app.domain.tokens.create(parley.admin, {
      grant: { service: { name: 'worker', agentIds: [agentId] } },
    })
    return (await parley.app.domain.tokens.authenticate(secret)) as ServiceViewer
  }

  /** The agent calls the tool and ends its cycle. The next cycle reads the result. */
  const lookUpAndEnd = (request: ModelRequest) =>
    inboxIn(request).includes('TOOL_RESULT')
      ? [{ text: 'I have the result.' }]
      : steps([{ toolCall: 'look_up', input: { question: 'Weather?' } }], [{ text: 'I wait for the result.' }])(request)

  test('an EXTERNAL call returns pending at once, the cycle continues, and the result goes to the inbox with name and id', async () => {
    const { human, agent, space } = await room([LOOK_UP])
    parley.models.script(lookUpAndEnd)
    await parley.send(human, space.id, 'How is the weather?')
    await thinking.rest(agent)
    const call = await callOf(agent.id)
    const second = parley.models.requests[1] as ModelRequest
    expect(JSON.parse(second.messages.at(-1)?.text ?? '')).toEqual({ status: 'pending', toolCallId: call.id })
    const [first] = await thinking.runsOf(agent)
    expect(first).toMatchObject({ status: 'COMPLETED', summary: 'I wait for the result.' })

    await submit(await worker(agent.id), call.id, { degrees: 21 })
    await thinking.rest(agent)
    expect(inboxIn(parley.models.requests.at(-1) as ModelRequest).split('\n')[1]).toBe(
      `- [TOOL_RESULT look_up (id: ${call.id})] {"degrees":21}`,
    )
    const cycles = await thinking.cyclesOf(agent)
    expect(cycles.map(({ summary }) => summary)).toEqual(['I wait for the result.', 'I have the result.'])
    const consciousness = cycles.flatMap(({ messages }) => messages as unknown[])
    expect(imbalanceOf(consciousness)).toBeNull()
    expect(JSON.stringify(consciousness)).toContain('"status":"pending"')
  })

  test('several calls of one step get results in any order, `false` counts as one, and each result names its own call', async () => {
    const { human, agent, space } = await room([LOOK_UP])
    const questions = ['Rain?', 'Snow?', 'Wind?']
    const calls = questions.map((question) => ({ toolCall: 'look_up', input: { question } }))
    parley.models.script((request) =>
      inboxIn(request).includes('TOOL_RESULT') ? [{ text: 'Good.' }] : steps(calls, [{ text: 'Asked.' }])(request),
    )
    await parley.send(human, space.id, 'How is the weather?')
    await thinking.rest(agent)
    const service = await worker(agent.id)
    const pending = await parley.app.domain.control.pendingToolCalls(service)
    expect(parley.models.requests[1]?.messages.slice(-3).map(({ text }) => JSON.parse(text))).toEqual(
      pending.map(({ id: toolCallId }) => ({ status: 'pending', toolCallId })),
    )
    const results = [true, false, { knots: 9 }]
    for (const index of [2, 0, 1]) await submit(service, pending[index]?.id ?? '', results[index])
    await thinking.rest(agent)
    const told = parley.models.requests.slice(2).flatMap((request) => inboxIn(request).split('\n').slice(1))
    expect(told).toEqual(
      [2, 0, 1].map((n) => `- [TOOL_RESULT look_up (id: ${pending[n]?.id})] ${JSON.stringify(results[n])}`),
    )
    expect(pending.map(({ input }) => input)).toEqual(questions.map((question) => ({ question })))
    const cycles = await thinking.cyclesOf(agent)
    expect(imbalanceOf(cycles.flatMap(({ messages }) => messages as unknown[]))).toBeNull()
  })

  test('a SPACE call shows as REQUIRES_ACTION, a member answers it after the cycle, and its message is then COMPLETE', async () => {
    const { human, agent, space } = await room([APPROVE])
    parley.models.script((request) =>
      inboxIn(request).includes('TOOL_RESULT')
        ? [{ text: 'Approved.' }]
        : steps(
            [{ toolCall: 'enter_space', input: { spaceId: spaceIn(request) } }],
            [{ toolCall: 'approve', input: { question: 'Deploy?' } }],
            [{ text: 'I have asked.' }],
          )(request),
    )
    await parley.send(human, space.id, 'Deploy')
    await thinking.rest(agent)
    const [, asked] = await parley.messages(space.id)
    expect(asked?.status).toBe('REQUIRES_ACTION')
    const [pending] = await parley.app.domain.control.pendingToolCalls(human)
    expect(pending).toMatchObject({ toolName: 'approve', spaceId: space.id })
    await submit(human, pending?.id ?? '', { approved: true })
    await thinking.rest(agent)
    expect((await parley.messages(space.id))[1]?.status).toBe('COMPLETE')
    const runs = await thinking.runsOf(agent)
    expect(runs[1]).toMatchObject({ triggerSpaceId: space.id, parentRunId: runs[0]?.id, summary: 'Approved.' })
  })

  test('a call without a result within its time limit gets a result that reports the timeout', async () => {
    const { human, agent, space } = await room([{ ...LOOK_UP, timeoutMs: 1000 }])
    parley.models.script(lookUpAndEnd)
    await parley.send(human, space.id, 'How is the weather?')
    await until('the time-out was thought about', async () => (await thinking.cyclesOf(agent)).length === 2)
    expect(inboxIn(parley.models.requests.at(-1) as ModelRequest)).toMatch(
      /TOOL_RESULT look_up \(id: tcl_\w+\)\] \{"error":\{"code":"TIMED_OUT"/,
    )
  })

  test('a result for a stopped cycle is still delivered', async () => {
    const { human, agent, space } = await room([APPROVE])
    const gate = createDeferred()
    parley.models.script((request) =>
      inboxIn(request).includes('TOOL_RESULT')
        ? [{ text: 'Approved.' }]
        : steps(
            [{ toolCall: 'enter_space', input: { spaceId: spaceIn(request) } }],
            [{ toolCall: 'approve', input: { question: 'Deploy?' } }],
            [{ gate: gate.promise }, { text: 'never' }],
          )(request),
    )
    await parley.send(human, space.id, 'Deploy')
    const call = await callOf(agent.id)
    await parley.models.request(({ step }) => step === 2)
    await parley.app.domain.control.stopRun(parley.admin, { runId: call.runId, cascade: false })
    gate.resolve()
    await thinking.rest(agent)
    expect((await parley.messages(space.id))[1]?.status).toBe('REQUIRES_ACTION')
    expect(await callOf(agent.id)).toMatchObject({ id: call.id })
    await submit(human, call.id, { approved: true })
    await thinking.rest(agent)
    const runs = await thinking.runsOf(agent)
    expect(runs.map(({ status }) => status)).toEqual(['CANCELED', 'COMPLETED'])
    expect((await parley.messages(space.id))[1]?.status).toBe('COMPLETE')
    const cycles = await thinking.cyclesOf(agent)
    expect(imbalanceOf(cycles.flatMap(({ messages }) => messages as unknown[]))).toBeNull()
  })

  test('a result that arrives in the same cycle waits for the next; its call stays pending in the consciousness', async () => {
    const { human, agent, space } = await room([LOOK_UP])
    const gate = createDeferred()
    parley.models.script((request) =>
      inboxIn(request).includes('TOOL_RESULT')
        ? [{ text: 'I have the result.' }]
        : steps(
            [{ toolCall: 'look_up', input: { question: 'Weather?' } }],
            [{ gate: gate.promise }, { text: 'I wait.' }],
          )(request),
    )
    await parley.send(human, space.id, 'How is the weather?')
    const call = await callOf(agent.id)
    await submit(await worker(agent.id), call.id, { degrees: 21 })
    gate.resolve()
    await thinking.rest(agent)
    const [first] = await thinking.cyclesOf(agent)
    expect(JSON.stringify(first?.messages)).toContain('"status":"pending"')
    expect(JSON.stringify(first?.messages)).not.toContain('degrees')
    expect(inboxIn(parley.models.requests.at(-1) as ModelRequest)).toContain('degrees')
  })

  test('a bad input is an error for the model, not a pending call', async () => {
    const { human, agent, space } = await room([LOOK_UP])
    parley.models.script(steps([{ toolCall: 'look_up', input: { question: 7 } }], [{ text: 'Wrong input.' }]))
    await parley.send(human, space.id, 'How is the weather?')
    await thinking.rest(agent)
    expect(JSON.parse(parley.models.requests[1]?.messages.at(-1)?.text ?? '')).toMatchObject({
      error: { code: 'BAD_INPUT' },
    })
    const [cycle] = await thinking.cyclesOf(agent)
    expect(JSON.stringify(cycle?.messages)).toContain('BAD_INPUT')
  })

  test('a skip after an EXTERNAL call ends the cycle normally, because the result must find its cycle', async () => {
    const { human, agent, space } = await room([LOOK_UP])
    parley.models.script((request) =>
      inboxIn(request).includes('TOOL_RESULT')
        ? [{ text: 'I have the result.' }]
        : steps([{ toolCall: 'look_up', input: { question: 'Weather?' } }], skip('Later.'))(request),
    )
    await parley.send(human, space.id, 'How is the weather?')
    const call = await callOf(agent.id)
    await thinking.rest(agent)
    await submit(await worker(agent.id), call.id, { degrees: 21 })
    await thinking.rest(agent)
    expect((await thinking.runsOf(agent)).map(({ summary }) => summary)).toEqual(['Later.', 'I have the result.'])
  })
})
