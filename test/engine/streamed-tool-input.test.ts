import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import type { ToolInput } from '../../src/agents/custom-tools.ts'
import { STACKS } from '../support/application.ts'
import { inTurn, type ModelAction, type ModelRequest, steps } from '../support/model-server-script.ts'
import type { LiveEvents } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { thinkingOn } from '../support/thinking.ts'
import { enter } from '../support/turns.ts'

const MESSAGE = 'message { id seq status parts { ... on ToolCallPart { toolCall { id toolName status input } } } }'
const WATCH = `subscription ($spaceId: ID!) { spaceMessages(spaceId: $spaceId) { __typename
  ... on MessagePosted { ${MESSAGE} }
  ... on MessagePartChanged { messageId part { index ... on ToolCallPart { toolCall { id status input } } } }
  ... on MessageUpdated { ${MESSAGE} }
  ... on MessageFinished { ${MESSAGE} }
} }`
const STOP = 'mutation ($runId: ID!) { stopRun(input: { runId: $runId }) { __typename } }'
const ANSWER = `mutation ($toolCallId: ID!) {
  submitToolResult(input: { toolCallId: $toolCallId, result: "yes" }) { __typename }
}`

const inputSchema = { type: 'object', properties: { question: { type: 'string' } }, required: ['question'] }
const ASK: ToolInput = { name: 'ask', description: 'Asks the members.', inputSchema, execution: 'SPACE' }
const CHART: ToolInput = { name: 'chart', description: 'Draws.', inputSchema, execution: 'INTERNAL', visible: true }
const HIDDEN: ToolInput = { ...CHART, name: 'ponder', visible: false }

// biome-ignore lint/suspicious/noExplicitAny: read freely by assertions
type Json = any
type Data = { spaceMessages: Json }

/** A call whose input the model writes up to its middle, and goes on when the gate opens. */
function halfWritten(toolCall: string, rest = '"Go?"}') {
  const { promise: gate, resolve: open } = Promise.withResolvers<void>()
  const chunks = ['{"question":', gate, rest]
  return { action: { toolCall, input: '', chunks } satisfies ModelAction, open }
}

describe.each(STACKS)('a visible call while the model writes its input, on the %s stack', (stack) => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({ stack, settings: { PARLEY_LOG_LEVEL: 'silent' } })
    await breakOffOn('Step', 'INSERT', 'true')
    await breakOffOn('Message', 'UPDATE', `NEW.status = 'REQUIRES_ACTION'`)
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const db = () => parley.app.platform.db.prisma

  /** Where a row of `deaths` says so, the database breaks off, once, when the worker writes what meets the condition. */
  async function breakOffOn(table: string, event: string, condition: string) {
    const sequence = `died_${table.toLowerCase()}`
    await db().$executeRawUnsafe('CREATE TABLE IF NOT EXISTS deaths ("table" text PRIMARY KEY)')
    await db().$executeRawUnsafe(`CREATE SEQUENCE ${sequence}`)
    await db().$executeRawUnsafe(`CREATE FUNCTION ${sequence}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF ${condition} AND EXISTS (SELECT 1 FROM deaths WHERE "table" = '${table}') AND nextval('${sequence}') = 1
      THEN RAISE EXCEPTION 'the database system is shutting down' USING ERRCODE = 'admin_shutdown'; END IF; RETURN NEW; END $$`)
    await db().$executeRawUnsafe(
      `CREATE TRIGGER ${sequence} BEFORE ${event} ON "${table}" FOR EACH ROW EXECUTE FUNCTION ${sequence}()`,
    )
  }

  const dieOn = (table: 'Step' | 'Message') => db().$executeRawUnsafe(`INSERT INTO deaths VALUES ('${table}')`)

  /** A room in which a watched agent was sent a message. */
  async function watched(input: Partial<CreateAgentInput>) {
    const { human, agent, space } = await parley.room('Ada', input)
    const client = await parley.clientOf(human)
    const live = client.subscribe<Data, object>(WATCH, { spaceId: space.id })
    await live.first(({ spaceMessages }) => spaceMessages.__typename === 'SpaceSnapshot')
    return { human, agent, space, client, live, view: viewOf(live) }
  }

  /** What a client of the space sees of the agent's messages. */
  function viewOf(live: LiveEvents<Data>) {
    const meets = (type: string, status: string, at: number) => {
      const found = () =>
        live.seen
          .map(({ spaceMessages }) => spaceMessages)
          .filter(
            ({ __typename, message, part }) => __typename === type && (message ?? part?.toolCall)?.status === status,
          )
      return live.first(() => found().length > at).then(() => found()[at])
    }
    return {
      posted: (at = 0) => meets('MessagePosted', 'STREAMING', at),
      updated: (status: string) => meets('MessageUpdated', status, 0),
      changed: (status: string) => meets('MessagePartChanged', status, 0),
      finished: (status: string) => meets('MessageFinished', status, 0),
      /** In order: the type of each event of the agent's messages with the status that it brought, repetitions left out. */
      told: () =>
        live.seen
          .map(({ spaceMessages }) => spaceMessages)
          .filter(({ message, part }) => (message?.parts[0] ?? part)?.toolCall !== undefined)
          .map(({ __typename, message, part }) => `${__typename} ${(message ?? part.toolCall).status}`)
          .filter((told, index, all) => told !== all[index - 1]),
    }
  }

  const seqsIn = async (spaceId: string) => (await parley.messages(spaceId)).map(({ seq, status }) => [seq, status])
  const startOf = async (human: HumanViewer, spaceId: string) =>
    (await parley.send(human, spaceId, 'Go on')).runs[0]?.id ?? ''
  const resultsIn = ({ messages }: ModelRequest) =>
    messages.filter(({ role }) => role === 'tool').map(({ text }) => text)

  test('shows at once as STREAMING without an input, then as WAITING with it, then with its answer', async () => {
    const { human, space, client, live, view } = await watched({ tools: [ASK] })
    const ask = halfWritten('ask')
    parley.models.script(steps([ask.action], [{ text: 'Thanks.' }]))
    const runId = await startOf(human, space.id)
    const { message } = await view.posted()
    expect(message).toMatchObject({ seq: 2, status: 'STREAMING' })
    const [{ toolCall }] = message.parts
    expect(toolCall).toMatchObject({ toolName: 'ask', status: 'STREAMING', input: null })
    const query = `query ($id: ID!, $runId: ID!) { node(id: $id) { ... on ToolCall { status input message { id } } }
      run(id: $runId) { toolCalls { id status } } }`
    const { data } = await client.ask<Json>(query, { id: toolCall.id, runId })
    expect(data.node).toEqual({ status: 'STREAMING', input: null, message: { id: message.id } })
    expect(data.run.toolCalls).toEqual([{ id: toolCall.id, status: 'STREAMING' }])

    ask.open()
    const { part } = await view.changed('WAITING')
    expect(part).toMatchObject({ index: 0, toolCall: { id: toolCall.id, input: { question: 'Go?' } } })
    expect((await view.updated('REQUIRES_ACTION')).message).toMatchObject({
      id: message.id,
      parts: [{ toolCall: { id: toolCall.id, status: 'WAITING' } }],
    })
    await client.ask(ANSWER, { toolCallId: toolCall.id })
    await view.finished('COMPLETE')
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED' })
    expect(view.told()).toEqual([
      'MessagePosted STREAMING',
      'MessagePartChanged WAITING',
      'MessageUpdated REQUIRES_ACTION',
      'MessagePartChanged DONE',
      'MessageFinished COMPLETE',
    ])
    // Who answers tells of the answer, who goes on tells of that: either may be first.
    const ofAnswer = new Set(['RunToolReturned', 'RunResumed'])
    const events = (await parley.eventsOf(runId)).filter((type) => !type.endsWith('Delta'))
    expect(events.filter((type) => ofAnswer.has(type)).toSorted()).toEqual(['RunResumed', 'RunToolReturned'])
    expect(events.filter((type) => !ofAnswer.has(type))).toEqual([
      ...['RunStarted', 'RunToolCalled', 'RunStepFinished', 'RunWaitingTool', 'RunStepFinished', 'RunCompleted'],
    ])
    live.stop()
  })

  test('of a tool that runs here it shows as RUNNING with its input, then as DONE', async () => {
    const { human, space, live, view } = await watched({ tools: [CHART] })
    const chart = halfWritten('chart')
    parley.models.script(steps([chart.action]))
    const runId = await startOf(human, space.id)
    await view.posted()
    chart.open()
    const { message } = await view.finished('COMPLETE')
    expect(message.parts).toMatchObject([{ toolCall: { status: 'DONE', input: { question: 'Go?' } } }])
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED' })
    expect(view.told()[0]).toBe('MessagePosted STREAMING')
    expect(await seqsIn(space.id)).toEqual([1, 2].map((seq) => [seq, 'COMPLETE']))
    live.stop()
  })

  test.each([
    ['does not fit its schema', '1}'],
    ['is no JSON', '}'],
  ])('shows as FAILED when its input %s, and its message is whole', async (_, rest) => {
    const { human, space, live, view } = await watched({ tools: [ASK] })
    const ask = halfWritten('ask', rest)
    parley.models.script(steps([ask.action], [{ text: 'Sorry.' }]))
    const runId = await startOf(human, space.id)
    const { message: posted } = await view.posted()
    ask.open()
    const { message } = await view.finished('COMPLETE')
    expect(message).toMatchObject({ id: posted.id, parts: [{ toolCall: { status: 'FAILED' } }] })
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED', summary: 'Sorry.' })
    expect(resultsIn(await parley.models.request(({ step }) => step === 1))).toEqual([
      expect.stringContaining('BAD_INPUT'),
    ])
    expect(await parley.eventsOf(runId)).toContain('RunToolReturned')
    live.stop()
  })

  test('a stop leaves its message INTERRUPTED and itself CANCELED', async () => {
    const { human, space, client, live, view } = await watched({ tools: [ASK] })
    parley.models.script(steps([halfWritten('ask').action]))
    const runId = await startOf(human, space.id)
    await view.posted()
    await client.ask(STOP, { runId })
    const { message } = await view.finished('INTERRUPTED')
    expect(message.parts).toMatchObject([{ toolCall: { status: 'CANCELED', input: null } }])
    expect(view.told().slice(0, -1)).toContain('MessagePartChanged CANCELED')
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'CANCELED' })
    live.stop()
  })

  test.each<[string, ModelAction, string]>([
    ['a generation that breaks off', { disconnect: true }, 'FAILED'],
    ['an error in the middle of the stream', { error: 'overloaded' }, 'FAILED'],
    ['the output limit', { finish: 'length' }, 'FAILED'],
    ["a provider's content filter", { finish: 'content_filter' }, 'FAILED'],
  ])('%s leaves its message INTERRUPTED and itself CANCELED', async (_, then, status) => {
    const { human, space, live, view } = await watched({ tools: [ASK] })
    const { promise: gate, resolve: breakOff } = Promise.withResolvers<void>()
    parley.models.script(() => [{ toolCall: 'ask', input: '', chunks: ['{"quest'] }, { gate }, then])
    const runId = await startOf(human, space.id)
    await view.posted()
    breakOff()
    const { message } = await view.finished('INTERRUPTED')
    expect(message.parts).toMatchObject([{ toolCall: { status: 'CANCELED' } }])
    expect(await parley.runWhen(runId)).toMatchObject({ status })
    live.stop()
  })

  test('a worker that dies meanwhile leaves it INTERRUPTED, and the retried generation begins another message', async () => {
    const { human, space, client, live, view } = await watched({ tools: [ASK] })
    const [first, second] = [halfWritten('ask'), halfWritten('ask')]
    // Some models count their calls anew in every generation.
    parley.models.script(
      inTurn([{ ...first.action, id: 'call_0' }], [{ ...second.action, id: 'call_0' }], [{ text: 'Thanks.' }]),
    )
    await dieOn('Step')
    const runId = await startOf(human, space.id)
    const { message: lost } = await view.posted()
    first.open()
    const { message } = await view.finished('INTERRUPTED')
    expect(message).toMatchObject({ id: lost.id, parts: [{ toolCall: { status: 'CANCELED', input: null } }] })
    const { message: again } = await view.posted(1)
    expect(again.id).not.toBe(lost.id)
    second.open()
    await view.updated('REQUIRES_ACTION')
    await client.ask(ANSWER, { toolCallId: again.parts[0].toolCall.id })
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED', stepCount: 2 })
    expect(await seqsIn(space.id)).toEqual([
      [1, 'COMPLETE'],
      [2, 'INTERRUPTED'],
      [3, 'COMPLETE'],
    ])
    expect(resultsIn(parley.models.requests.at(-1) as ModelRequest)).toEqual(['yes'])
    expect(parley.models.refusals).toEqual([])
    live.stop()
  })

  test('a worker that dies when its input is whole is replaced by one that goes on with the same message', async () => {
    const { human, space, client, live, view } = await watched({ tools: [ASK] })
    const ask = halfWritten('ask')
    parley.models.script(steps([ask.action], [{ text: 'Thanks.' }]))
    await dieOn('Message')
    const runId = await startOf(human, space.id)
    const { message } = await view.posted()
    ask.open()
    expect((await view.updated('REQUIRES_ACTION')).message.id).toBe(message.id)
    await client.ask(ANSWER, { toolCallId: message.parts[0].toolCall.id })
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED', stepCount: 2 })
    expect((await parley.run(runId)).attempt).toBeGreaterThan(2)
    expect(await seqsIn(space.id)).toEqual([1, 2].map((seq) => [seq, 'COMPLETE']))
    expect(parley.models.requests).toHaveLength(2)
    live.stop()
  })

  test('shows nothing while a phase withholds the tool, where nobody has entered a space, or before its turn', async () => {
    const phases = [{ fromStep: 0, activeTools: ['send_message'] }]
    const cases = [
      { input: { tools: [ASK], phases }, wake: true, before: [] },
      { input: { tools: [ASK, HIDDEN] }, wake: true, before: [{ toolCall: 'ponder', input: { question: 'Hm.' } }] },
      { input: { tools: [ASK] }, wake: false, before: [] },
    ]
    for (const { input, wake, before } of cases) {
      parley.models.reset()
      const { human, agent, space, live, view } = await watched(input as Partial<CreateAgentInput>)
      const ask = halfWritten('ask')
      parley.models.script(() => [...before, ask.action])
      const runId = wake
        ? await startOf(human, space.id)
        : ((
            await parley.app.api.control.triggerAgent(parley.admin, {
              agentId: agent.id,
              payload: {},
              serviceName: 'clock',
            })
          ).run?.id ?? '')
      const client = await parley.clientOf(parley.admin)
      const run = client.subscribe<Json, object>(
        'subscription ($runId: ID!) { runEvents(runId: $runId) { __typename ... on RunToolInputDelta { toolName } } }',
        { runId },
      )
      await run.first(({ runEvents }: Json) => runEvents.toolName === 'ask')
      await client.ask(STOP, { runId })
      await parley.runWhen(runId)
      expect(await seqsIn(space.id)).toEqual(wake ? [[1, 'COMPLETE']] : [])
      expect(view.told()).toEqual([])
      live.stop()
    }
  })

  test('a persistent mind goes on without the answer, and what was shown keeps a skip from undoing the cycle', async () => {
    const thinking = thinkingOn(parley)
    const { human, agent, space, client, live, view } = await watched({ mind: 'PERSISTENT', tools: [ASK] })
    const ask = halfWritten('ask')
    parley.models.script(inTurn([enter(space)], [ask.action], [{ toolCall: 'skip', input: {} }], [{ text: 'Good.' }]))
    await parley.send(human, space.id, 'Go on')
    const { message } = await view.posted()
    const toolCallId = message.parts[0].toolCall.id
    ask.open()
    await view.updated('REQUIRES_ACTION')
    await thinking.rest(agent)
    expect(resultsIn(parley.models.requests[2] as ModelRequest).slice(-1)).toEqual([
      JSON.stringify({ status: 'pending', toolCallId }),
    ])
    expect(await thinking.cycleCountOf(agent)).toBe(1)
    await client.ask(ANSWER, { toolCallId })
    expect((await view.finished('COMPLETE')).message.id).toBe(message.id)
    await thinking.rest(agent)
    live.stop()
  })
})
