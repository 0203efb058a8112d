import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import type { ToolInput } from '../../src/agents/custom-tools.ts'
import { RULE_STACKS } from '../support/application.ts'
import { inTurn, type ModelAction, type ModelRequest, steps } from '../support/model-server-script.ts'
import type { LiveEvents } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { thinkingOn } from '../support/thinking.ts'
import { enter } from '../support/turns.ts'

const MESSAGE =
  'message { id seq status parts { ... on TextPart { text } ... on ToolCallPart { toolCall { id toolName status input } } } }'
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

// biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
type Json = any
type Data = { spaceMessages: Json }

/** A call whose input the model writes up to its middle. It continues when the gate opens. */
function halfWritten(toolCall: string, rest = '"Go?"}') {
  const { promise: gate, resolve: open } = Promise.withResolvers<void>()
  const chunks = ['{"question":', gate, rest]
  return { action: { toolCall, input: '', chunks } satisfies ModelAction, open }
}

describe.each(RULE_STACKS)('a visible call while the model writes its input, on the %s stack', (stack) => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({ stack, settings: { PARLEY_LOG_LEVEL: 'silent' } })
    await breakOffOn('Step', 'INSERT', 'true')
    const isWholeNow = `OLD.parts::text LIKE '%unfinished%' AND NEW.parts::text NOT LIKE '%unfinished%'`
    await breakOffOn('Message', 'UPDATE', `(NEW.status = 'REQUIRES_ACTION' OR ${isWholeNow})`)
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const db = () => parley.app.platform.db.prisma

  /** If a row of `deaths` contains the table, the database breaks the connection once, when the worker writes a matching row. */
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

  async function dieOn(table: 'Step' | 'Message') {
    await db().$executeRawUnsafe(`SELECT setval('died_${table.toLowerCase()}', 1, false)`)
    await db().$executeRawUnsafe(`INSERT INTO deaths VALUES ('${table}') ON CONFLICT DO NOTHING`)
  }

  /** Creates a room with a followed agent, and sends a message to the agent. */
  async function watched(input: Partial<CreateAgentInput>) {
    const { human, agent, space } = await parley.room('Ada', input)
    const client = await parley.clientOf(human)
    const live = client.subscribe<Data, object>(WATCH, { spaceId: space.id })
    await live.first(({ spaceMessages }) => spaceMessages.__typename === 'SpaceSnapshot')
    return { human, agent, space, client, live, view: viewOf(live) }
  }

  /** Returns the agent's messages as a client sees them. */
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
      /**
       * Returns the type and status of each event of the agent's messages, in order. Leaves out repetitions, and input deltas,
       * which contain the current call.
       */
      told: () =>
        live.seen
          .map(({ spaceMessages }) => spaceMessages)
          .filter(({ message, part }) => (message?.parts[0] ?? part)?.toolCall !== undefined)
          .map(({ __typename, message, part }) => `${__typename} ${(message ?? part.toolCall).status}`)
          .filter(
            (told, index, all) => told !== all[index - 1] && !/^MessagePartChanged (STREAMING|RUNNING)$/.test(told),
          ),
    }
  }

  const seqsIn = async (spaceId: string) => (await parley.messages(spaceId)).map(({ seq, status }) => [seq, status])
  const startOf = async (human: HumanViewer, spaceId: string) =>
    (await parley.send(human, spaceId, 'Go on')).runs[0]?.id ?? ''
  const resultsIn = ({ messages }: ModelRequest) =>
    messages.filter(({ role }) => role === 'tool').map(({ text }) => text)

  test('appears at once as STREAMING without an input, then as WAITING with the input, then with its result', async () => {
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
    await parley.runWhen(runId, 'WAITING_TOOL')
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
    // The process that settles the call publishes the result, and the process that resumes the run publishes its event. Either
    // can be first.
    const ofAnswer = new Set(['RunToolReturned', 'RunResumed'])
    const events = (await parley.eventsOf(runId)).filter((type) => !type.endsWith('Delta'))
    expect(events.filter((type) => ofAnswer.has(type)).toSorted()).toEqual(['RunResumed', 'RunToolReturned'])
    expect(events.filter((type) => !ofAnswer.has(type))).toEqual([
      'RunStarted',
      'RunToolCalled',
      'RunStepFinished',
      'RunWaitingTool',
      'RunStepFinished',
      'RunCompleted',
    ])
    live.stop()
  })

  test('its input grows as it is generated, as an object that includes incomplete values', async () => {
    const { human, space, client, live, view } = await watched({ tools: [CHART] })
    const gates = [0, 1, 2].map(() => Promise.withResolvers<void>())
    const [more, detail, rest] = gates.map(({ promise }) => promise) as [Promise<void>, Promise<void>, Promise<void>]
    const chunks = ['{"question":"How ma', more, 'ny?","style":{"co', detail, 'lour":"gr', rest, 'een"}}']
    parley.models.script(steps([{ toolCall: 'chart', input: '', chunks }], [{ text: 'Drawn.' }]))
    const runId = await startOf(human, space.id)
    const { message } = await view.posted()
    const inputs = () =>
      live.seen
        .filter(({ spaceMessages: { part } }) => part?.toolCall?.status === 'STREAMING')
        .map(({ spaceMessages: { messageId, part } }) => ({ messageId, index: part.index, ...part.toolCall.input }))
    const grown = [{ question: 'How ma' }, { question: 'How many?', style: {} }]
    grown.push({ question: 'How many?', style: { colour: 'gr' } } as (typeof grown)[number])
    for (const [index, input] of grown.entries()) {
      await live.first(() => inputs().length > index)
      expect(inputs()[index]).toEqual({ messageId: message.id, index: 0, ...input })
      gates[index]?.resolve()
    }
    const { message: whole } = await view.finished('COMPLETE')
    expect(whole.parts[0].toolCall).toMatchObject({ input: { question: 'How many?', style: { colour: 'green' } } })
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED' })
    const query = 'query ($id: ID!) { node(id: $id) { ... on ToolCall { status input } } }'
    expect((await client.ask<Json>(query, { id: message.parts[0].toolCall.id })).data.node.status).toBe('DONE')
    live.stop()
  })

  test('its input is published at most ten times a second', async () => {
    const { human, space, live, view } = await watched({ tools: [CHART] })
    const letters = Array.from({ length: 200 }, () => 'a')
    parley.models.script(
      steps([{ toolCall: 'chart', input: '', chunks: ['{"question":"', ...letters, '"}'], delayMs: 5 }]),
    )
    const begunAt = performance.now()
    const runId = await startOf(human, space.id)
    await view.finished('COMPLETE')
    const tookMs = performance.now() - begunAt
    await parley.runWhen(runId)
    const told = live.seen.filter(({ spaceMessages: { part } }) => part?.toolCall?.status === 'STREAMING')
    expect(told.length).toBeLessThanOrEqual(Math.ceil(tookMs / 100) + 1)
    live.stop()
  })

  test('a visible call of a server-side tool appears as RUNNING with its input, then as DONE', async () => {
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
  ])('shows as FAILED when its input %s, and its message is COMPLETE', async (_, rest) => {
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

  test('a stop leaves its message INTERRUPTED and the call CANCELED', async () => {
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
  ])('%s leaves its message INTERRUPTED and the call CANCELED', async (_, then, status) => {
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

  test('a dying worker leaves it INTERRUPTED, and the retried generation begins another message', async () => {
    const { human, space, client, live, view } = await watched({ tools: [ASK] })
    const [first, second] = [halfWritten('ask'), halfWritten('ask')]
    // Some models number the calls of each generation from the beginning.
    parley.models.script(
      inTurn([{ ...first.action, id: 'call_0' }], [{ ...second.action, id: 'call_0' }], [{ text: 'Thanks.' }]),
    )
    await dieOn('Step')
    const runId = await startOf(human, space.id)
    const { message: lost } = await view.posted()
    first.open()
    const { message } = await view.finished('INTERRUPTED')
    expect(message).toMatchObject({ id: lost.id, parts: [{ toolCall: { status: 'CANCELED' } }] })
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

  test('after a worker dies with the complete input, the next one continues the same message', async () => {
    const { human, space, client, live, view } = await watched({ tools: [ASK] })
    const ask = halfWritten('ask')
    parley.models.script(steps([ask.action], [{ text: 'Thanks.' }]))
    await dieOn('Message')
    const runId = await startOf(human, space.id)
    const { message } = await view.posted()
    ask.open()
    expect((await view.updated('REQUIRES_ACTION')).message.id).toBe(message.id)
    await parley.runWhen(runId, 'WAITING_TOOL')
    await client.ask(ANSWER, { toolCallId: message.parts[0].toolCall.id })
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED', stepCount: 2 })
    expect((await parley.run(runId)).attempt).toBeGreaterThan(2)
    expect(await seqsIn(space.id)).toEqual([1, 2].map((seq) => [seq, 'COMPLETE']))
    expect(parley.models.requests).toHaveLength(2)
    live.stop()
  })

  test('is hidden while a phase withholds the tool, without an active space, or while it waits for an earlier call', async () => {
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
            await parley.app.domain.control.triggerAgent(parley.admin, {
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

  test('a persistent agent continues without the result, and the visible call prevents a skip from undoing the cycle', async () => {
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

  describe('with a toolset whose calls name their space', () => {
    const speaker = { toolset: 'SPACE_TOOLS' as const, tools: [CHART] }
    const say = (spaceId: string, text: string): ModelAction => ({
      toolCall: 'sendSpaceMessage',
      input: { spaceId, text },
    })
    const chart = (fields: object): ModelAction => ({ toolCall: 'chart', input: fields })

    /** A call whose input starts with these fields. The question stops in its middle, and continues when the gate opens. */
    function halfDrawn(before: object, rest = 'any?"}') {
      const { promise: gate, resolve: open } = Promise.withResolvers<void>()
      const chunks = [`${JSON.stringify(before).slice(0, -1)},"question":"How m`, gate, rest]
      return { action: { toolCall: 'chart', input: '', chunks } satisfies ModelAction, open }
    }

    /**
     * Returns the agent's current messages, each with its status and parts. Texts are unchanged; calls are represented by
     * status and input.
     */
    async function messagesIn(spaceId: string, client: Awaited<ReturnType<typeof watched>>['client'], agentId: string) {
      const query = `query ($id: ID!) { space(id: $id) { messages(last: 50) { edges { node { status sender { id } parts {
        ... on TextPart { text } ... on ToolCallPart { toolCall { status input } } } } } } } }`
      const { data } = await client.ask<Json>(query, { id: spaceId })
      return data.space.messages.edges
        .map(({ node }: Json) => node)
        .filter(({ sender }: Json) => sender.id === agentId)
        .map(({ status, parts }: Json) => [
          status,
          ...parts.map(({ text, toolCall }: Json) => text ?? [toolCall.status, toolCall.input?.question]),
        ])
    }

    /** Returns the deltas of calls while their input was being written. */
    const grownIn = (live: LiveEvents<Data>) =>
      live.seen
        .filter(({ spaceMessages: { part } }) => part?.toolCall?.status === 'STREAMING')
        .map(({ spaceMessages: { part } }) => [part.index, part.toolCall.input])

    test('a part appears as soon as its space is known and grows there, as the first of its message and as a later one', async () => {
      const { human, agent, space, client, live, view } = await watched(speaker)
      const [first, second] = [
        halfDrawn({ targetSpaceId: space.id }),
        halfDrawn({ style: {}, targetSpaceId: space.id }),
      ]
      parley.models.script(steps([first.action, say(space.id, 'Look.')], [second.action], [say(space.id, 'Well?')]))
      const runId = await startOf(human, space.id)
      const { message } = await view.posted()
      expect(message).toMatchObject({
        seq: 2,
        parts: [{ toolCall: { status: 'STREAMING', input: { question: 'How m' } } }],
      })
      first.open()
      await live.first(() => grownIn(live).some(([index]) => index === 2))
      expect(grownIn(live).at(-1)).toEqual([2, { style: {}, question: 'How m' }])
      const whole = ['DONE', 'How many?']
      expect(await messagesIn(space.id, client, agent.id)).toEqual([
        ['STREAMING', whole, 'Look.', ['STREAMING', 'How m']],
      ])
      second.open()
      await view.finished('COMPLETE')
      expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED' })
      expect(await messagesIn(space.id, client, agent.id)).toEqual([['COMPLETE', whole, 'Look.', whole, 'Well?']])
      expect(await seqsIn(space.id)).toEqual([1, 2].map((seq) => [seq, 'COMPLETE']))
      live.stop()
    })

    test('a part is published at most ten times a second', async () => {
      const { human, space, live, view } = await watched(speaker)
      const letters = Array.from({ length: 200 }, () => 'a')
      const chunks = [`{"targetSpaceId":"${space.id}","question":"`, ...letters, '"}']
      parley.models.script(steps([{ toolCall: 'chart', input: '', chunks, delayMs: 5 }]))
      const begunAt = performance.now()
      const runId = await startOf(human, space.id)
      await view.finished('COMPLETE')
      const tookMs = performance.now() - begunAt
      await parley.runWhen(runId)
      expect(grownIn(live).length).toBeLessThanOrEqual(Math.ceil(tookMs / 100) + 1)
      live.stop()
    })

    test('a part whose space comes last, is unknown to the agent, or has a mention of a human, is not visible while it is generated', async () => {
      for (const what of ['last', 'foreign', 'mentioning'] as const) {
        parley.models.reset()
        const { human, agent, space, client, live } = await watched(speaker)
        const other = await parley.space(human, [])
        const before = {
          last: {},
          foreign: { targetSpaceId: other.id },
          mentioning: { targetSpaceId: space.id, mention: human.id },
        }[what]
        const draw =
          what === 'last' ? halfDrawn({ style: {} }, `any?","targetSpaceId":"${space.id}"}`) : halfDrawn(before)
        parley.models.script(steps([draw.action]))
        const runId = await startOf(human, space.id)
        const run = (await parley.clientOf(parley.admin)).subscribe<Json, object>(
          'subscription ($runId: ID!) { runEvents(runId: $runId) { __typename ... on RunToolInputDelta { delta } } }',
          { runId },
        )
        await run.first(({ runEvents }: Json) => runEvents.delta?.includes('How m'))
        draw.open()
        expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED' })
        expect(await messagesIn(space.id, client, agent.id)).toEqual(
          what === 'last' ? [['COMPLETE', ['DONE', 'How many?']]] : [],
        )
        expect(await seqsIn(other.id)).toEqual([])
        expect(grownIn(live)).toEqual([])
        live.stop()
      }
    })

    test.each([
      ['a mention of a human after it', (human: { id: string }) => `any?","mention":"${human.id}"}`],
      ['another space after it', () => 'any?","targetSpaceId":"spc_another"}'],
      ['no JSON after it', () => 'any?"'],
    ])('%s leaves the part as FAILED, and its message continues', async (_, rest) => {
      const { human, agent, space, client, live, view } = await watched(speaker)
      const draw = halfDrawn({ targetSpaceId: space.id }, rest(human))
      parley.models.script(steps([draw.action], [say(space.id, 'Sorry.')]))
      const runId = await startOf(human, space.id)
      await view.posted()
      draw.open()
      expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED' })
      const [message, ...others] = await messagesIn(space.id, client, agent.id)
      expect([message[0], message[1][0], message[2]]).toEqual(['COMPLETE', 'FAILED', 'Sorry.'])
      expect(others).toEqual([])
      expect(resultsIn(await parley.models.request(({ step }) => step === 1))).toEqual([
        expect.stringContaining('BAD_INPUT'),
      ])
      live.stop()
    })

    test('a stop keeps the complete parts, and marks the unfinished one CANCELED in an INTERRUPTED message', async () => {
      const { human, agent, space, client, live, view } = await watched(speaker)
      parley.models.script(steps([say(space.id, 'Look.')], [halfDrawn({ targetSpaceId: space.id }).action]))
      const runId = await startOf(human, space.id)
      await view.changed('STREAMING')
      await client.ask(STOP, { runId })
      await view.finished('INTERRUPTED')
      expect(await messagesIn(space.id, client, agent.id)).toEqual([['INTERRUPTED', 'Look.', ['CANCELED', 'How m']]])
      expect(await parley.runWhen(runId)).toMatchObject({ status: 'CANCELED' })
      live.stop()
    })

    test('an interrupted generation leaves it INTERRUPTED, and the retry repeats the part in another message', async () => {
      const { human, agent, space, client, live, view } = await watched(speaker)
      const draw = halfDrawn({ targetSpaceId: space.id }, 'a')
      const again = chart({ targetSpaceId: space.id, question: 'How many?' })
      parley.models.script(
        inTurn([say(space.id, 'Look.')], [draw.action, { disconnect: true }], [again], [{ text: 'Well.' }]),
      )
      const runId = await startOf(human, space.id)
      await view.changed('STREAMING')
      draw.open()
      expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED', stepCount: 3 })
      expect(await messagesIn(space.id, client, agent.id)).toEqual([
        ['INTERRUPTED', 'Look.', ['CANCELED', expect.stringMatching(/^How ma?$/)]],
        ['COMPLETE', ['DONE', 'How many?']],
      ])
      expect((await seqsIn(space.id)).map(([seq]) => seq)).toEqual([1, 2, 3])
      live.stop()
    })

    test.each<[string, ModelAction]>([
      ['a generation that breaks off for good', { error: 'overloaded' }],
      ['the output limit', { finish: 'length' }],
    ])('%s leaves every message of a part INTERRUPTED with its call CANCELED', async (_, then) => {
      const { human, agent, space, client, live, view } = await watched(speaker)
      const { promise: gate, resolve: breakOff } = Promise.withResolvers<void>()
      const chunks = [`{"targetSpaceId":"${space.id}","question":"How m`]
      parley.models.script(() => [{ toolCall: 'chart', input: '', chunks }, { gate }, then])
      const runId = await startOf(human, space.id)
      await view.posted()
      breakOff()
      expect(await parley.runWhen(runId)).toMatchObject({ status: 'FAILED' })
      const messages = await messagesIn(space.id, client, agent.id)
      const ends = messages.map(([status, [call]]: [string, string[]]) => `${status} ${call}`)
      expect(new Set(ends)).toEqual(new Set(['INTERRUPTED CANCELED']))
      live.stop()
    })

    test('a worker that dies before it stores the generation leaves it INTERRUPTED, and the next one repeats it', async () => {
      const { human, agent, space, client, live, view } = await watched(speaker)
      const draw = halfDrawn({ targetSpaceId: space.id })
      const again = chart({ targetSpaceId: space.id, question: 'Again?' })
      parley.models.script(inTurn([draw.action], [again, say(space.id, 'Look.')], [{ text: 'Well.' }]))
      await dieOn('Step')
      const runId = await startOf(human, space.id)
      await view.posted()
      draw.open()
      expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED', stepCount: 2 })
      expect(await messagesIn(space.id, client, agent.id)).toEqual([
        ['INTERRUPTED', ['CANCELED', 'How many?']],
        ['COMPLETE', ['DONE', 'Again?'], 'Look.'],
      ])
      expect((await seqsIn(space.id)).map(([seq]) => seq)).toEqual([1, 2, 3])
      live.stop()
    })

    test('after a worker dies with the complete input, the next one continues the same part', async () => {
      const { human, agent, space, client, live, view } = await watched(speaker)
      const draw = halfDrawn({ targetSpaceId: space.id })
      parley.models.script(steps([say(space.id, 'Look.')], [draw.action, say(space.id, 'Well?')]))
      const runId = await startOf(human, space.id)
      await view.changed('STREAMING')
      await dieOn('Message')
      draw.open()
      expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED' })
      expect((await parley.run(runId)).attempt).toBeGreaterThan(1)
      expect(await messagesIn(space.id, client, agent.id)).toEqual([
        ['COMPLETE', 'Look.', ['DONE', 'How many?'], 'Well?'],
      ])
      expect(parley.models.requests).toHaveLength(3)
      live.stop()
    })
  })
})
