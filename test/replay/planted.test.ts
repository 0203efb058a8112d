import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { backtest } from '../../src/replay/backtest.ts'
import { junitOf, markdownOf } from '../../src/replay/backtest-report.ts'
import type { DivergenceKind } from '../../src/replay/compare.ts'
import { readRecording } from '../../src/replay/recording.ts'
import { describeReplay, replay } from '../../src/replay/replay.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { type BookedService, openService } from '../support/decisions.ts'
import { changed, playRoom, type RoomKind, recordingOf } from '../support/recorded-rooms.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests change any column
type Row = Record<string, any>

const kind = (happens: RoomKind['happens'], more: Partial<RoomKind> = {}): RoomKind => ({
  name: happens,
  routing: 'BROADCAST',
  mind: 'STATELESS',
  toolset: 'ACTIVE_SPACE',
  happens,
  confidential: false,
  ...more,
})

/** The rooms whose recordings are changed. */
const ROOMS = {
  approval: kind('approval'),
  chain: kind('chain', { routing: 'MENTION_CHAIN' }),
  delegation: kind('chain', { routing: 'ADMIN', toolset: 'SPACE_TOOLS' }),
  answer: kind('answer', { toolset: 'SPACE_TOOLS' }),
  memory: kind('memory'),
  plan: kind('plan'),
  inbox: kind('service', { mind: 'PERSISTENT' }),
  version: kind('version'),
  thread: kind('thread'),
  edit: kind('edit'),
  deletion: kind('deletion'),
  file: kind('file'),
  failure: kind('failure'),
  stop: kind('stop'),
}
type Room = keyof typeof ROOMS

/** One line of a recording that contains a row. */
interface Line {
  table: string
  row: Row
}

/** Changes the lines of a recording. The names are those of the agents in the room. */
type Change = (lines: Line[], heading: Row) => unknown

const isAny = () => true
const found = (lines: Line[], table: string, isMeant: (row: Row) => boolean): Line => {
  const line = lines.find((one) => one.table === table && isMeant(one.row))
  if (line === undefined) throw new Error(`The recording has no such row of ${table}.`)
  return line
}
/** Changes the first matching row of a table. */
const sets =
  (table: string, fields: object | ((row: Row) => object), isMeant: (row: Row) => boolean = isAny): Change =>
  (lines) => {
    const { row } = found(lines, table, isMeant)
    Object.assign(row, typeof fields === 'function' ? fields(row) : fields)
  }
/** Removes the first matching row of a table. */
const removes =
  (table: string, isMeant: (row: Row) => boolean = isAny): Change =>
  (lines) => {
    lines.splice(lines.indexOf(found(lines, table, isMeant)), 1)
  }
const limits =
  (fields: object): Change =>
  (_, heading) => {
    Object.assign(heading['limits'], fields)
  }
const replaces =
  (from: string | RegExp, to: string) =>
  ({ instructions }: Row) => {
    expect(instructions).toMatch(from)
    return { instructions: instructions.replace(from, to) }
  }
const both =
  (...changes: Change[]): Change =>
  (lines, heading) => {
    for (const change of changes) change(lines, heading)
  }

const isCallOf = (name: string) => (row: Row) => row['toolName'] === name
const isOfAgent = (row: Row) => row['runId'] !== null
const isText = (row: Row) => isOfAgent(row) && row['parts'][0]?.type === 'text'
const isAda = (row: Row) => row['name']?.startsWith('Ada')
const says = (text: string) => ({ parts: [{ type: 'text', text }] })
/** Replaces the first answer of a model. */
const answers =
  (content: (part: Row) => object) =>
  ({ assistant }: Row) => ({ assistant: { ...assistant, content: [content(assistant.content[0])] } })
const calls = (name: string) => (row: Row) => row['assistant']?.content?.[0]?.toolName === name

const PLANTED: [name: string, room: Room, change: Change, kind: DivergenceKind, where: RegExp][] = [
  // Wake-ups that happened, and wake-ups that did not.
  ['the outcome of a message', 'approval', sets('Outcome', { kind: 'NOT_ROUTED' }), 'wake-up', /outcome of message 1 /],
  [
    'the number in the reason of an outcome',
    'chain',
    sets('Outcome', { reason: 'The limit of 7.' }),
    'wake-up',
    /outcome of message 1 /,
  ],
  [
    'the error of an outcome',
    'failure',
    sets('Outcome', { error: 'Out of 5.' }, (row) => row['error'] !== null),
    'wake-up',
    /outcome of message/,
  ],
  ['a missing outcome', 'approval', removes('Outcome'), 'wake-up', /outcome of message 1 /],
  [
    'the delivery to an inbox',
    'inbox',
    sets('Outcome', { kind: 'DROPPED' }, (row) => row['kind'] === 'INBOX'),
    'wake-up',
    /outcome of message/,
  ],
  [
    'the routing of the space',
    'approval',
    sets('Space', { routing: 'MENTION_CHAIN' }),
    'wake-up',
    /The run run_\w+ of/,
  ],
  [
    'a member that had not joined',
    'approval',
    removes('Membership', (row) => row['entityId'].startsWith('agt_')),
    'wake-up',
    /The run run_\w+ of/,
  ],
  ['an agent that was paused', 'approval', sets('Agent', { paused: true }), 'wake-up', /The run run_\w+ of/],
  [
    'the trigger of a run',
    'approval',
    sets('Run', (row) => ({ triggerMessageId: `msg_${row['id'].slice(4)}` })),
    'wake-up',
    /The run run_\w+ of|Message 1/,
  ],
  ['the limit of runs', 'approval', limits({ maxRootRuns: 1 }), 'wake-up', /The run run_\w+ of/],
  ['a missing firing of a plan', 'plan', removes('PlanFiring'), 'wake-up', /The run run_\w+ of Ada/],
  [
    'a missing event of a service',
    'inbox',
    removes('InboxEvent', (row) => row['type'] === 'SERVICE'),
    'wake-up',
    /The run run_\w+ of Ada/,
  ],
  // Prompts.
  ['the text of a person', 'approval', sets('Message', says('Good bye.')), 'prompt', /step 0/],
  ['the instructions of an agent', 'approval', sets('Agent', { instructions: 'Sing.' }), 'prompt', /step 0/],
  ['the instructions in a prompt', 'approval', sets('Step', replaces('Answer briefly.', 'Sing.')), 'prompt', /step 0/],
  [
    'the version of an agent',
    'version',
    (lines) => {
      const versions = lines.filter(
        ({ table, row }) => table === 'AgentVersion' && row['definition'].name.startsWith('Ada'),
      )
      for (const { row } of versions.slice(0, 1)) row['definition'].instructions = 'Sing.'
    },
    'prompt',
    /step 0/,
  ],
  [
    'a name in a section of a prompt',
    'approval',
    sets('Step', replaces(/"Room (\d+)"/, '"Attic $1"')),
    'prompt',
    /step 0/,
  ],
  ['the name of an agent', 'approval', sets('Entity', { name: 'Eve' }, isAda), 'prompt', /step 0/],
  ['the name of the space', 'approval', sets('Space', { name: 'Attic' }), 'prompt', /step 0/],
  [
    'the messages of a prompt',
    'approval',
    sets('Step', { messagesAdded: [{ role: 'user', content: '"else"' }] }),
    'prompt',
    /step 0/,
  ],
  [
    'a tool that was offered',
    'approval',
    sets('Step', (row) => ({ activeTools: [...row['activeTools'], 'fly'] })),
    'prompt',
    /step 0/,
  ],
  ['a tool that the agent had', 'approval', removes('AgentTool'), 'prompt', /step 0/],
  ['the model of a step', 'approval', sets('Step', { model: 'openai.chat:other' }), 'prompt', /step 0/],
  ['the length of the history', 'approval', limits({ historyLimit: 1 }), 'prompt', /step/],
  [
    'the result of a tool outside',
    'approval',
    sets('ToolCall', { output: { booked: 'no' } }, isCallOf('refund')),
    'prompt',
    /step 2/,
  ],
  [
    'the answer of a person',
    'answer',
    sets('ToolCall', { output: { answer: 'no' } }, isCallOf('ask')),
    'prompt',
    /step/,
  ],
  ['the earlier text of an edited message', 'edit', sets('MessageVersion', { text: 'Hi.' }), 'prompt', /step 0/],
  ['the instruction of a plan', 'plan', sets('Plan', { instruction: 'Sing.' }), 'prompt', /step 0/],
  [
    'the payload of a service',
    'inbox',
    sets(
      'InboxEvent',
      (row) => ({ payload: { ...row['payload'], payload: { issue: 0 } } }),
      (row) => row['type'] === 'SERVICE',
    ),
    'prompt',
    /step 0/,
  ],
  [
    'the name of a file',
    'file',
    sets('Message', (row) => ({
      parts: row['parts'].map((part: Row) => (part['type'] === 'file' ? { ...part, name: 'x.txt' } : part)),
    })),
    'prompt',
    /step 0/,
  ],
  // Calls.
  [
    'another tool in an answer',
    'approval',
    sets('ToolCall', { toolName: 'lookup' }, isCallOf('refund')),
    'call',
    /step 1/,
  ],
  [
    'the result of a built-in tool',
    'approval',
    sets('ToolCall', { output: { success: true } }, isCallOf('enter_space')),
    'call',
    /step 0, enter_space/,
  ],
  [
    'the status of a call',
    'approval',
    sets('ToolCall', { status: 'FAILED' }, isCallOf('send_message')),
    'call',
    /send_message/,
  ],
  ['the approval of a call', 'approval', sets('Decision', { approve: false }), 'call', /step 1, refund/],
  [
    'the state of an approval',
    'approval',
    sets('ToolCall', { approvalState: 'DENIED' }, isCallOf('refund')),
    'call',
    /step 1, refund/,
  ],
  ['a missing decision', 'approval', removes('Decision'), 'call', /refund|Ada/],
  ['a missing call', 'approval', removes('ToolCall', isCallOf('enter_space')), 'call', /step 0, enter_space/],
  [
    'the memory that a call has set',
    'memory',
    sets('ToolCall', (row) => ({ output: { ...row['output'], updated: ['size'] } }), isCallOf('set_memories')),
    'call',
    /step 1, set_memories/,
  ],
  [
    'the file that a call has read',
    'file',
    sets('ToolCall', (row) => ({ output: { ...row['output'], text: 'Other notes.' } }), isCallOf('read_file')),
    'call',
    /step 1, read_file/,
  ],
  [
    'the target of a delegation',
    'delegation',
    sets('ToolCall', { output: { success: true, delegatedTo: 'agt_1' } }, isCallOf('delegateToAgent')),
    'call',
    /delegateToAgent/,
  ],
  // The arguments of calls.
  [
    'the arguments of a call',
    'approval',
    sets('ToolCall', { input: { amount: 43 } }, isCallOf('refund')),
    'arguments',
    /step 1, refund/,
  ],
  [
    'the text of a call',
    'approval',
    sets('ToolCall', { input: { text: 'x' } }, isCallOf('send_message')),
    'arguments',
    /send_message/,
  ],
  [
    'the arguments in an answer',
    'approval',
    sets(
      'Step',
      answers((part) => ({ ...part, input: { text: 'y' } })),
      calls('send_message'),
    ),
    'arguments',
    /send_message/,
  ],
  [
    'the reason of a mention',
    'chain',
    sets('ToolCall', (row) => ({ input: { ...row['input'], reason: 'Cid knows.' } }), isCallOf('mentionAgent')),
    'arguments',
    /mentionAgent/,
  ],
  // Messages.
  ['the message of an agent', 'approval', sets('Message', says('x'), isText), 'message', /Message \d/],
  ['the status of a message', 'approval', sets('Message', { status: 'INTERRUPTED' }, isText), 'message', /Message \d/],
  [
    'the sender of a message',
    'chain',
    (lines) => {
      const { row } = found(lines, 'Message', isText)
      row['senderId'] = found(lines, 'Agent', (one) => one['id'] !== row['senderId']).row['id']
    },
    'message',
    /Message \d/,
  ],
  [
    'the mention of a message',
    'chain',
    sets('Message', { mentionedAgentId: null }, (row) => row['mentionedAgentId'] !== null),
    'message',
    /Message \d/,
  ],
  [
    'the thread of a message',
    'thread',
    sets('Message', { replyToId: null }, (row) => isOfAgent(row) && row['replyToId'] !== null),
    'message',
    /Message \d/,
  ],
  [
    'a deletion that did not happen',
    'approval',
    sets('Message', { deletedAt: new Date(Date.now() + 60_000).toISOString() }, isText),
    'arguments',
    /send_message/,
  ],
  [
    'a missing last message',
    'chain',
    both(
      (lines) => {
        const last = lines.filter(({ table }) => table === 'Message').at(-1)
        for (const line of lines.filter(
          ({ table, row }) => table === 'Outcome' && row['messageId'] === last?.row['id'],
        ))
          lines.splice(lines.indexOf(line), 1)
        if (last !== undefined) lines.splice(lines.indexOf(last), 1)
      },
      sets('Space', (row) => ({ lastSeq: row['lastSeq'] - 1 })),
    ),
    'call',
    /send_message/,
  ],
  // Usage.
  ['the cost of a step', 'approval', sets('Step', { costNanos: 7 }), 'budget', /step 0/],
  [
    'the prices of models',
    'approval',
    (_, heading) => {
      heading['prices'] = { 'openai.chat:test': { input: 1, cachedInput: 1, output: 1 } }
    },
    'budget',
    /step 0/,
  ],
  [
    'the tokens of a run',
    'approval',
    sets('Run', (row) => ({ outputTokens: row['outputTokens'] + 1 })),
    'budget',
    /The run/,
  ],
  ['the token budget of an agent', 'approval', sets('Agent', { tokenBudget: 1 }), 'budget', /step/],
  // How runs ended.
  ['the reason of an end', 'approval', sets('Run', { stopReason: 'MAX_STEPS' }), 'end', /The run/],
  ['the summary of a run', 'approval', sets('Run', { summary: 'x' }), 'end', /The run/],
  ['the status of a run', 'approval', sets('Run', { status: 'FAILED' }), 'end', /The run/],
  [
    'the words of a failing provider',
    'failure',
    sets('Run', { error: 'No money. (HTTP 402)' }, (row) => row['stopReason'] === 'MODEL_FAILED'),
    'end',
    /The run/,
  ],
  ['the steps that an agent may take', 'approval', sets('Agent', { maxSteps: 1 }), 'end', /step 1/],
  // A cut-off answer (the finish reason `length`) is not reported as the first divergence yet.
  [
    'the closing text of a run',
    'approval',
    sets(
      'Step',
      answers((part) => ({ ...part, text: 'No.' })),
      (row) => row['assistant'].content[0].type === 'text',
    ),
    'end',
    /The run/,
  ],
  [
    'a run that nobody stopped',
    'stop',
    sets('Run', { status: 'COMPLETED', stopReason: 'FINISHED' }, (row) => row['stopReason'] === 'STOPPED'),
    'end',
    /The run/,
  ],
]

describe('a change that was made to a recording', () => {
  let parley: TestApplication
  let service: BookedService
  let text: string
  let names: string[]
  const texts = new Map<Room, string>()
  beforeAll(async () => {
    parley = await startApplication({ isFresh: true })
    service = await openService()
    for (const room of Object.keys(ROOMS) as Room[]) {
      const { spaceId, agents } = await playRoom(parley, ROOMS[room], service.url)
      texts.set(room, (await recordingOf(parley, spaceId)).text)
      if (room === 'approval') names = agents.map(({ name }) => name)
    }
    text = texts.get('approval') ?? ''
  })
  afterAll(async () => {
    await parley.close()
    await service.close()
  })

  test('the table has at least 50 changes, of every kind of divergence', () => {
    expect(PLANTED.length).toBeGreaterThanOrEqual(50)
    expect(new Set(PLANTED.map(([name]) => name)).size).toBe(PLANTED.length)
    expect(new Set(PLANTED.map(([, , , one]) => one)).size).toBe(7)
  })

  test.each(Object.keys(ROOMS) as Room[])('the room %s replays to an equal log without a change', async (room) => {
    const replayed = await replay(readRecording(room, texts.get(room) ?? ''))
    expect(replayed.isEqual, describeReplay(room, replayed)).toBe(true)
  })

  test.each(PLANTED)('%s is reported at its first divergence', async (_, room, change, expected, where) => {
    const recording = readRecording('planted.jsonl', changed(texts.get(room) ?? '', change))
    const { isEqual, divergence } = await replay(recording)
    expect([isEqual, divergence?.kind], JSON.stringify(divergence)).toEqual([false, expected])
    expect(divergence?.where).toMatch(where)
    expect(divergence?.recorded).not.toBe(divergence?.replayed)
    expect(divergence?.cause).toMatch(/\.$/)
  })

  test('a change of the server’s own wording is reported only as a note', async () => {
    const change = sets('Step', replaces('HOW YOU ACT:\n', 'HOW YOU ACT:\nBe kind to everybody.\n'))
    const recording = readRecording('planted.jsonl', changed(text, change))
    const { isEqual, notes } = await replay(recording)
    expect(isEqual).toBe(true)
    expect(notes).toEqual([expect.stringContaining('own wording')])
  })

  test('a change of the agent is visible in a backtest, whose middle lane is equal', async () => {
    const recording = readRecording('room.jsonl', text)
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

  test('a change of the model’s action is reported, together with what the recording lacks', async () => {
    const recording = readRecording('room.jsonl', text)
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
    expect(tested.missing).toEqual(expect.arrayContaining([expect.stringContaining('no result for lookup')]))
    expect(tested.differences).toEqual(expect.arrayContaining([expect.objectContaining({ agent: ada, what: 'calls' })]))
    expect([tested.isPassed, service.calls.length]).toEqual([false, before])

    asked.length = 0
    const completed = await backtest(recording, {
      changes: new Map([[agent?.id ?? '', { model: 'test:candidate' }]]),
      checks: [{ calls: { agent: ada, tool: 'lookup', input: { amount: 7 } } }],
      results: [{ agent: ada, tool: 'lookup', input: { amount: 7 }, output: { found: true } }],
      models: {
        check: (name) => (name === 'test:candidate' ? null : `${name} is unknown.`),
        resolve: async () => model as never,
      },
      judge: null,
    })
    expect(completed.missing).not.toEqual(expect.arrayContaining([expect.stringContaining('lookup')]))
    expect(completed.checks).toEqual([expect.objectContaining({ failure: null })])
    expect(service.calls.length).toBe(before)
  })
})
