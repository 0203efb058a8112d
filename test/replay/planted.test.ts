import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { backtest } from '../../src/replay/backtest.ts'
import { junitOf, markdownOf } from '../../src/replay/backtest-report.ts'
import { readRecording } from '../../src/replay/recording.ts'
import { replay } from '../../src/replay/replay.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { type BookedService, openService } from '../support/decisions.ts'
import { sampleOf } from '../support/effort.ts'
import { edited, playRoom, type RoomKind, recordingOf } from '../support/recorded-rooms.ts'

// biome-ignore lint/suspicious/noExplicitAny: rows, changed freely
type Row = Record<string, any>

const KIND: RoomKind = {
  name: 'planted',
  routing: 'BROADCAST',
  mind: 'STATELESS',
  toolset: 'ACTIVE_SPACE',
  happens: 'approval',
  confidential: false,
}

/** The rooms in which changes are planted. */
const ROOMS: Record<string, RoomKind> = {
  approval: KIND,
  memory: { ...KIND, name: 'memory', mind: 'PERSISTENT', toolset: 'SPACE_TOOLS', happens: 'memory' },
  answer: { ...KIND, name: 'answer', routing: 'ADMIN', happens: 'answer' },
  plan: { ...KIND, name: 'plan', routing: 'MENTION_CHAIN', happens: 'plan' },
  service: { ...KIND, name: 'service', routing: 'ADMIN', mind: 'PERSISTENT', happens: 'service' },
  failure: { ...KIND, name: 'failure', toolset: 'SPACE_TOOLS', happens: 'failure' },
}

const fills =
  (fields: object, isMeant: (row: Row) => boolean = () => true) =>
  (row: Row) => {
    if (!isMeant(row)) return false
    Object.assign(row, fields)
    return true
  }
/** Replaces text in a column. */
const replaces =
  (column: string, text: string, by: string, isMeant: (row: Row) => boolean = () => true) =>
  (row: Row) => {
    const before = JSON.stringify(row[column] ?? null)
    if (!isMeant(row) || !before.includes(text)) return false
    row[column] = JSON.parse(before.replaceAll(text, by))
    return true
  }
const isCallOf = (name: string) => (row: Row) => row['toolName'] === name
const isOfAgent = (row: Row) => row['runId'] !== null
const isStep = (index: number) => (row: Row) => row['index'] === index
const text1 = (words: string) => ({ parts: [{ type: 'text', text: words }] })
const has = (column: string) => (row: Row) => row[column] !== null

type Planted = [room: string, what: string, table: string, change: (row: Row) => unknown, kind: string | RegExp]

const PLANTED: Planted[] = [
  ['approval', 'the outcome of a message', 'Outcome', fills({ kind: 'NOT_ROUTED' }), 'wake-up'],
  ['approval', 'the reason of an outcome', 'Outcome', fills({ reason: 'Because it rains.' }), 'wake-up'],
  ['approval', 'the routing of the space', 'Space', fills({ routing: 'MENTION_CHAIN' }), 'wake-up'],
  ['approval', 'the text of a person', 'Message', fills(text1('Good bye.')), 'prompt'],
  ['approval', 'the name of a person', 'Entity', fills({ name: 'Mallory' }, ({ kind }) => kind === 'HUMAN'), 'prompt'],
  ['approval', 'the name of the space', 'Space', fills({ name: 'Elsewhere' }), 'prompt'],
  ['approval', 'the instructions of an agent', 'Agent', fills({ instructions: 'Sing.' }), 'prompt'],
  ['approval', 'the model of an agent', 'Step', fills({ model: 'openai.chat:other' }), 'prompt'],
  ['approval', 'a prompt', 'Step', fills({ messagesAdded: [{ role: 'user', content: '"something else"' }] }), 'prompt'],
  ['approval', 'a quoted message', 'Step', replaces('messagesAdded', 'Hello, number', 'Hullo, number'), 'prompt'],
  [
    'approval',
    'the instructions in a prompt',
    'Step',
    replaces('instructions', 'You are Ada', 'You were Ada'),
    'prompt',
  ],
  ['approval', 'a member in a prompt', 'Step', replaces('instructions', '(human)', '(agent)'), 'prompt'],
  ['approval', 'the tools of a prompt', 'Step', (row) => row['activeTools'].push('fly'), 'prompt'],
  ['approval', 'the name of a call', 'Step', replaces('assistant', '"refund"', '"lookup"'), /call|arguments/],
  [
    'approval',
    "the arguments in a model's answer",
    'Step',
    replaces('assistant', '"amount":42', '"amount":43'),
    /arguments|call/,
  ],
  ['approval', "a model's own text", 'Step', replaces('assistant', 'Done.', 'Did it.'), /end|message/],
  [
    'approval',
    'the arguments of a call',
    'ToolCall',
    fills({ input: { amount: 43 } }, isCallOf('refund')),
    'arguments',
  ],
  [
    'approval',
    'the text of a call',
    'ToolCall',
    fills({ input: { text: 'x' } }, isCallOf('send_message')),
    'arguments',
  ],
  [
    'approval',
    'the result of a built-in tool',
    'ToolCall',
    fills({ output: { success: true } }, isCallOf('enter_space')),
    'call',
  ],
  ['approval', 'the status of a call', 'ToolCall', fills({ status: 'CANCELED' }, isCallOf('enter_space')), 'call'],
  ['approval', 'the approval of a call', 'Decision', fills({ approve: false }), 'call'],
  ['approval', 'the reason of a decision', 'Decision', fills({ reason: 'Nobody knows.' }), /call|prompt/],
  ['approval', 'the message of an agent', 'Message', fills(text1('x'), isOfAgent), 'message'],
  [
    'approval',
    'the sender of a message',
    'Message',
    fills({ replyToId: `msg_${'0'.repeat(32)}` }, isOfAgent),
    'message',
  ],
  ['approval', 'the status of a message', 'Message', fills({ status: 'INTERRUPTED' }, isOfAgent), 'message'],
  ['approval', 'the cost of a step', 'Step', fills({ costNanos: 7 }), 'budget'],
  ['approval', 'the tokens of a step', 'Step', fills({ inputTokens: 1, cachedInputTokens: 2 }), /budget|end/],
  ['approval', 'the reason of an end', 'Run', fills({ stopReason: 'MAX_STEPS' }), 'end'],
  ['approval', 'the status of a run', 'Run', fills({ status: 'FAILED', error: 'It broke.' }), 'end'],
  ['approval', 'the budget of a run', 'Run', fills({ status: 'FAILED', stopReason: 'OVER_BUDGET' }), 'budget'],
  ['approval', 'the summary of a run', 'Run', fills({ summary: 'x' }), 'end'],
  ['approval', 'the trigger of a run', 'Run', fills({ triggerMessageId: null, triggerType: 'SERVICE' }), 'wake-up'],
  ['memory', 'the value of a memory', 'Step', replaces('instructions', '"green"', '"blue"'), 'prompt'],
  [
    'memory',
    'the input of a memory',
    'ToolCall',
    replaces('input', 'green', 'blue', isCallOf('setMemories')),
    'arguments',
  ],
  ['memory', 'the result of a memory', 'ToolCall', fills({ output: {} }, isCallOf('setMemories')), 'call'],
  ['memory', 'the inbox of a cycle', 'Step', replaces('messagesAdded', 'And again', 'Never again'), 'prompt'],
  ['memory', 'the text of a composite message', 'Message', fills(text1('x'), isOfAgent), 'message'],
  ['memory', 'the end of a cycle', 'Run', fills({ summary: 'x' }), 'end'],
  [
    'answer',
    "a person's answer",
    'ToolCall',
    fills({ output: { answer: 'no' } }, isCallOf('ask')),
    /prompt|call|message/,
  ],
  ['answer', 'the input of a visible call', 'ToolCall', fills({ input: { amount: 9 } }, isCallOf('ask')), 'arguments'],
  ['answer', 'the admin agent of the space', 'Space', fills({ adminAgentId: null }), /wake-up|prompt/],
  [
    'answer',
    'the agent that was not woken',
    'Outcome',
    fills({ kind: 'RUN' }, ({ kind }) => kind === 'NOT_ROUTED'),
    'wake-up',
  ],
  ['plan', 'the instruction of a plan', 'Plan', fills({ instruction: 'Say nothing.' }), 'prompt'],
  ['plan', 'the name of a plan', 'Plan', fills({ name: 'Weekly' }), /prompt|wake-up/],
  ['plan', 'the firing of a plan', 'Run', fills({ triggerName: 'Weekly' }, has('triggerName')), 'wake-up'],
  [
    'service',
    'the payload of a service',
    'InboxEvent',
    fills({ payload: { name: 'Jira', payload: { issue: 0 } } }, ({ type }) => type === 'SERVICE'),
    'prompt',
  ],
  ['service', 'the step of a cycle', 'Step', fills({ outputTokens: 1 }, isStep(1)), 'budget'],
  ['failure', 'the error of a model', 'Run', fills({ error: 'It rained.' }, has('error')), 'end'],
  ['failure', 'the fault of a model', 'Run', fills({ fault: null }, has('fault')), 'end'],
  [
    'failure',
    'the run that failed',
    'Run',
    fills({ status: 'COMPLETED', stopReason: 'FINISHED' }, has('error')),
    'end',
  ],
]

describe('a change planted in a recording', () => {
  let parley: TestApplication
  let service: BookedService
  const texts = new Map<string, string>()
  let names: string[]
  beforeAll(async () => {
    parley = await startApplication({ isFresh: true })
    service = await openService()
    for (const [name, kind] of Object.entries(ROOMS)) {
      const { spaceId, agents } = await playRoom(parley, kind, service.url)
      if (kind === KIND) names = agents.map((agent) => agent.name)
      texts.set(name, (await recordingOf(parley, spaceId)).text)
    }
  })
  afterAll(async () => {
    await parley.close()
    await service.close()
  })

  /** Changes the first row of a table for which `change` does not return false. */
  const planted = (table: string, change: (row: Row) => unknown, room = 'approval') => {
    let isDone = false
    const changed = edited(texts.get(room) ?? '', (value) => {
      if (!isDone && value.table === table && value.row !== undefined) isDone = change(value.row) !== false
    })
    expect(isDone).toBe(true)
    return readRecording('planted.jsonl', changed)
  }

  test('there are fifty of them', () => {
    expect(PLANTED).toHaveLength(50)
  })

  test.each(sampleOf(PLANTED, 14))(
    'in the room "%s", of %s, is named at its first divergence',
    async (room, _, table, change, kind) => {
      const { isEqual, divergence } = await replay(planted(table, change, room))
      expect([isEqual, divergence?.kind], JSON.stringify(divergence)).toEqual([false, expect.stringMatching(kind)])
      expect(divergence?.recorded).not.toBe(divergence?.replayed)
      expect(divergence?.cause).toMatch(/\.$/)
    },
  )

  test("of the server's own wording only is a note", async () => {
    const recording = planted('Step', (row) => {
      row['instructions'] = row['instructions'].replace('HOW YOU ACT:\n', 'HOW YOU ACT:\nBe kind to everybody.\n')
    })
    const { isEqual, notes } = await replay(recording)
    expect(isEqual).toBe(true)
    expect(notes).toEqual([expect.stringContaining('own wording')])
  })

  test('of the agent is seen in a backtest, whose middle lane is equal', async () => {
    const recording = readRecording('room.jsonl', texts.get('approval') ?? '')
    const [ada = ''] = names
    const agent = recording.entities.find(({ name }) => name === ada)
    const checks = [
      { calls: { agent: ada, tool: 'refund', input: { amount: 42 } } },
      { says: { agent: ada, matches: 'answers' } },
      { says: { agent: ada, matches: 'sings' } },
      { rubric: 'Ada is kind.' },
    ]
    const input = {
      changes: new Map([[agent?.id ?? '', { instructions: 'Answer at length.' }]]),
      checks,
      models: null,
      judge: null,
    }
    const tested = await backtest(recording, input)
    expect(tested.baseline).toBe(null)
    expect(tested.missing).toEqual([])
    expect(tested.differences).toEqual([])
    expect(tested.checks.map(({ failure }) => failure === null)).toEqual([true, true, false, false])
    expect(tested.isPassed).toBe(false)
    expect(markdownOf([tested])).toContain(`| ${ada} | candidate |`)
    expect(junitOf([tested])).toContain('<failure message="Found 0 times')
    expect((await backtest(recording, { ...input, checks: checks.slice(0, 2) })).isPassed).toBe(true)
  })

  test('of the model to one that does something else is reported, and what the recording lacks', async () => {
    const recording = readRecording('room.jsonl', texts.get('approval') ?? '')
    const [ada = ''] = names
    const agent = recording.entities.find(({ name }) => name === ada)
    const asked: string[] = []
    const model = {
      specificationVersion: 'v4' as const,
      provider: 'test',
      modelId: 'candidate',
      supportedUrls: {},
      doGenerate: async () => {
        throw new Error('not used')
      },
      async doStream() {
        asked.push('candidate')
        const usage = {
          inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
          outputTokens: { total: 1, text: 1, reasoning: 0 },
        }
        const parts =
          asked.length === 1
            ? [
                { type: 'tool-call', toolCallId: 'c1', toolName: 'lookup', input: '{"amount":7}' },
                { type: 'finish', finishReason: { unified: 'tool-calls', raw: undefined }, usage },
              ]
            : [
                { type: 'text-start', id: '0' },
                { type: 'text-delta', id: '0', delta: 'Done.' },
                { type: 'text-end', id: '0' },
                { type: 'finish', finishReason: { unified: 'stop', raw: undefined }, usage },
              ]
        return {
          stream: new ReadableStream({
            start(controller) {
              for (const part of parts) controller.enqueue(part)
              controller.close()
            },
          }),
        }
      },
    }
    const before = service.calls.length
    const tested = await backtest(recording, {
      changes: new Map([[agent?.id ?? '', { model: 'test:candidate' }]]),
      checks: [],
      models: {
        check: (name) => (name === 'test:candidate' ? null : `${name} is unknown.`),
        resolve: async () => model as never,
      },
      judge: null,
    })
    expect(tested.baseline).toBe(null)
    expect(asked.length).toBeGreaterThan(0)
    expect(tested.missing).toEqual(expect.arrayContaining([expect.stringContaining('no result of lookup')]))
    expect(tested.differences).toEqual(expect.arrayContaining([expect.objectContaining({ agent: ada, what: 'calls' })]))
    expect([tested.isPassed, service.calls.length]).toEqual([false, before])
  })
})
