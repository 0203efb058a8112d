import { describe, expect, test } from 'vitest'
import { type Comparison, compare, type DivergenceKind } from '../../src/replay/compare.ts'
import { createIdMap } from '../../src/replay/ids.ts'
import type { Recording, RoomRows } from '../../src/replay/recording.ts'

const id = (prefix: string, n: number) => `${prefix}_${String(n).padStart(32, '0')}`
const at = (ms: number) => new Date(Date.UTC(2026, 10, 27, 12) + ms).toISOString()
const [ADA, BOB, HUSAM, SPACE] = [id('agt', 1), id('agt', 2), id('hum', 1), id('spc', 1)]
const [RUN, OTHER, CALL] = [id('run', 1), id('run', 2), id('tcl', 1)]

// biome-ignore lint/suspicious/noExplicitAny: each case sets only some columns
type Row = Record<string, any>
type Rows = Partial<Record<keyof RoomRows, Row[]>>

const entity = (of: string, name: string) => ({ id: of, name, goneAt: null })
const message = (seq: number) => ({
  id: id('msg', seq),
  seq,
  spaceId: SPACE,
  senderId: HUSAM,
  runId: null,
  status: 'COMPLETE',
  threadRootId: null,
  parts: [{ type: 'text', text: 'Hello.' }],
  createdAt: at(0),
  routedAt: at(0),
  mentionedIds: [],
  replyToId: null,
})
const run = (row: Row = {}) => ({
  id: RUN,
  agentId: ADA,
  triggerType: 'SPACE_MESSAGE',
  triggerMessageId: id('msg', 1),
  status: 'COMPLETED',
  stopReason: 'FINISHED',
  summary: null,
  error: null,
  fault: null,
  threadRootId: null,
  triggerSummary: 'Hello.',
  queuedAt: at(1),
  startedAt: at(2),
  finishedAt: at(90),
  ...row,
})
const step = (row: Row = {}) => ({
  runId: RUN,
  index: 0,
  model: 'demo',
  instructions: null,
  messagesAdded: [],
  activeTools: [],
  startedAt: at(10),
  durationMs: 5,
  finishReason: 'stop',
  inputTokens: 1,
  outputTokens: 1,
  costNanos: null,
  assistant: { role: 'assistant', content: 'Done.' },
  ...row,
})
const call = (row: Row = {}) => ({
  id: CALL,
  runId: RUN,
  agentId: ADA,
  stepIndex: 0,
  modelCallId: '1',
  toolName: 'send_message',
  execution: null,
  status: 'DONE',
  input: {},
  output: {},
  error: null,
  approvalState: null,
  answeredById: null,
  answeredByService: null,
  createdAt: at(20),
  settledAt: at(30),
  ...row,
})

const room = (rows: Rows): Recording =>
  ({
    heading: { spaceId: SPACE, hasOtherConfidential: false },
    space: { id: SPACE, name: 'Team', createdAt: at(0) },
    entities: [entity(ADA, 'Ada'), entity(BOB, 'Bob'), entity(HUSAM, 'Husam')],
    messages: [message(1)],
    runs: [run()],
    steps: [step()],
    calls: [],
    outcomes: [],
    decisions: [],
    audit: [],
    memories: [],
    files: [],
    inboxEvents: [],
    grants: [],
    grantDecisions: [],
    versions: [],
    plans: [],
    firings: [],
    ...rows,
  }) as unknown as Recording

/** Compares a recording with a replay that has these rows. */
function compared(recorded: Rows, replayed: Rows): Comparison {
  const recording = room(recorded)
  const ids = createIdMap()
  for (const one of [RUN, OTHER]) ids.link(one, one)
  return compare(recording, { rows: room(replayed), ids, stall: null, missing: [] })
}

const failed = (more: Row) => (message: string, code: string) => ({
  calls: [call({ status: 'FAILED', output: { error: { code, message } }, error: message, ...more })],
})
const outcome = (more: Row) => (reason: string, kind: string) => ({
  outcomes: [{ messageId: id('msg', 1), agentId: BOB, kind, reason, error: null, runId: null, ...more }],
})
const ended = (more: Row) => (error: string, stopReason: string) => ({
  runs: [run({ status: 'FAILED', stopReason, error, ...more })],
})
const asked = (content: string) => ({ steps: [step({ messagesAdded: [{ role: 'user', content }] })] })
const told = (section: string) => ({
  steps: [
    step({
      instructions: `You are Ada, an agent. Your id is ${ADA}.\n\nBe kind.\n\nHOW YOU ACT:\n- Briefly.\n\n${section}`,
    }),
  ],
})
const listed = (about: string, triggerType: string) => ({
  calls: [call({ toolName: 'get_my_runs', output: { runs: [{ runId: OTHER, triggerType, triggerSummary: about }] } })],
})

/** A text that the server stores, with its code or kind, in three forms: as recorded, reworded, and with other data. */
interface Kind {
  name: string
  rows(text: string, code: string): Rows
  recorded: [text: string, code: string]
  reworded: string
  changed: [text: string, code: string][]
  is: DivergenceKind
}

const OF_SERVER: Kind[] = [
  {
    name: 'the reason why a message wakes no agent',
    rows: outcome({}),
    recorded: ['Another agent was picked.', 'NOT_ROUTED'],
    reworded: "It was somebody else's turn.",
    changed: [
      ['Another agent was picked.', 'LOOP_LIMIT'],
      ['Another agent was picked, "Bob".', 'NOT_ROUTED'],
    ],
    is: 'wake-up',
  },
  {
    name: 'the reason of a limit',
    rows: outcome({}),
    recorded: ['The chain of triggers has reached its maximum depth of 5.', 'LOOP_LIMIT'],
    reworded: 'No more than 5 triggers may follow one another.',
    changed: [['The chain of triggers has reached its maximum depth of 6.', 'LOOP_LIMIT']],
    is: 'wake-up',
  },
  {
    name: 'the reason of a delegation, which contains the words of an agent',
    rows: (text, kind) => ({
      ...outcome({})(text, kind),
      calls: [call({ toolName: 'delegate', input: { reason: 'Bob knows the orders.' } })],
    }),
    recorded: ['The agent delegated the message. Bob knows the orders.', 'NOT_ROUTED'],
    reworded: 'Delegated by the agent: Bob knows the orders.',
    changed: [['The agent delegated the message. I do not care.', 'NOT_ROUTED']],
    is: 'wake-up',
  },
  {
    name: 'the advice in the outcome of a failed run',
    rows: (error, kind) => outcome({ reason: null, error })('', kind),
    recorded: ["The model's provider is not available. Try again later.", 'FAILED'],
    reworded: 'The provider cannot be reached. Wait a little.',
    changed: [["The model's provider is not available. Try again in 5 minutes.", 'FAILED']],
    is: 'wake-up',
  },
  {
    name: 'the failure of a built-in tool',
    rows: failed({}),
    recorded: ['You are in no space yet: call enter_space first.', 'NO_ACTIVE_SPACE'],
    reworded: 'Enter a space first.',
    changed: [
      ['You are in no space yet: call enter_space first.', 'NOT_A_MEMBER'],
      ['You are not in the space "Team" yet.', 'NO_ACTIVE_SPACE'],
    ],
    is: 'call',
  },
  {
    name: 'the refusal of an input, also of a tool outside the server',
    rows: failed({ toolName: 'refund', execution: 'HTTP' }),
    recorded: ['amount must be <= 100.', 'BAD_INPUT'],
    reworded: 'At most 100 is allowed as amount.',
    changed: [['amount must be <= 200.', 'BAD_INPUT']],
    is: 'call',
  },
  {
    name: 'a denial, which quotes a person',
    rows: failed({ toolName: 'refund', execution: 'HTTP', approvalState: 'DENIED' }),
    recorded: ['Denied by "Husam": "Too much.". It was not carried out.', 'DENIED'],
    reworded: 'It was not executed: "Too much.", says "Husam".',
    changed: [
      ['Denied by "Eva": "Too much.". It was not carried out.', 'DENIED'],
      ['Denied by "Husam": "Why?". It was not carried out.', 'DENIED'],
      ['Denied by "Husam": "Too much.". It was not carried out.', 'EXPIRED'],
    ],
    is: 'call',
  },
  {
    name: 'the end of a wait for a person',
    rows: failed({ toolName: 'ask', execution: 'SPACE', status: 'TIMED_OUT' }),
    recorded: ['Nobody answered ask in time.', 'TIMED_OUT'],
    reworded: 'There was no answer.',
    changed: [['Nobody answered ask in time.', 'CANCELED']],
    is: 'call',
  },
  {
    name: 'an unreachable tool outside the server',
    rows: failed({ toolName: 'lookup', execution: 'HTTP' }),
    recorded: ['The server did not answer within 5000 ms.', 'TIMED_OUT'],
    reworded: 'No answer after 5000 ms.',
    changed: [['The server did not answer within 100 ms.', 'TIMED_OUT']],
    is: 'call',
  },
  {
    name: 'a note about a file',
    rows: (note, name) => ({ calls: [call({ toolName: 'read_file', output: { name, note } })] }),
    recorded: ['No text was found in this file.', 'a.pdf'],
    reworded: 'This file contains no text.',
    changed: [['No text was found in this file.', 'b.pdf']],
    is: 'call',
  },
  {
    name: 'the subject of a run that a plan started, in a list of runs',
    rows: listed,
    recorded: ['The plan "Daily": "Say hello."', 'plan'],
    reworded: 'Plan "Daily" is due: "Say hello."',
    changed: [
      ['The plan "Weekly": "Say hello."', 'plan'],
      ['The plan "Daily": "Say hello."', 'service'],
    ],
    is: 'call',
  },
  {
    name: 'the error of a run that the server ended',
    rows: ended({}),
    recorded: ['The run exceeded its time limit of 60 s.', 'TIME_LIMIT'],
    reworded: 'More than 60 s have passed.',
    changed: [
      ['The run exceeded its time limit of 90 s.', 'TIME_LIMIT'],
      ['The run exceeded its time limit of 60 s.', 'WORKER_LOST'],
    ],
    is: 'end',
  },
  {
    name: 'the error of a run whose model broke off',
    rows: (error, stopReason) => ({
      ...ended({ fault: 'BROKEN_OFF' })(error, stopReason),
      steps: [step({ finishReason: 'interrupted' })],
    }),
    recorded: ["The model's stream ended in the middle of its answer.", 'MODEL_FAILED'],
    reworded: 'The answer is incomplete.',
    changed: [["The model's stream ended in the middle of its answer.", 'INTERNAL']],
    is: 'end',
  },
  {
    name: 'the first message of a prompt',
    rows: asked,
    recorded: [`TRIGGER: a message from Husam (human) in "Team" (id: ${SPACE})\n{"text":"Hello."}`, ''],
    reworded: `WHY YOU WORK: Husam (human) has written in "Team" (id: ${SPACE})\n{"text":"Hello."}`,
    changed: [
      [`TRIGGER: a message from Bob (agent) in "Team" (id: ${SPACE})\n{"text":"Hello."}`, ''],
      [`TRIGGER: a message from Husam (human) in "Team" (id: ${SPACE})\n{"text":"Bye."}`, ''],
    ],
    is: 'prompt',
  },
  {
    name: 'who waits in a chain',
    rows: told,
    recorded: [`YOUR TURN IN "Team":\n- It is your turn.\n- Waiting for a reply: "Bob" (id: ${BOB})`, ''],
    reworded: `YOUR TURN IN "Team":\n- Now you act.\n- These wait: "Bob" (id: ${BOB})`,
    changed: [
      ['YOUR TURN IN "Team":\n- It is your turn.', ''],
      [`YOUR TURN IN "Crew":\n- It is your turn.\n- Waiting for a reply: "Bob" (id: ${BOB})`, ''],
    ],
    is: 'prompt',
  },
  {
    name: 'the title of a section with data',
    rows: told,
    recorded: [`DECISIONS: (by people; quoted)\n- refund (id: ${CALL}): approved by "Husam"`, ''],
    reworded: `DECISIONS: (what people decided)\n- refund (id: ${CALL}): "Husam" has agreed`,
    changed: [[`DECISIONS: (by people; quoted)\n- refund (id: ${CALL}): approved by "Eva"`, '']],
    is: 'prompt',
  },
]

describe.each(OF_SERVER)('$name', ({ rows, recorded, reworded, changed, is }) => {
  const [text, code] = recorded

  test('is only reported as a note if it is worded differently', () => {
    const { divergence, notes } = compared(rows(text, code), rows(reworded, code))
    expect(divergence).toBe(null)
    expect(notes).toEqual([expect.stringContaining("the server's own wording")])
  })
  test.each(changed)('is a divergence with other data: %s %s', (other, otherCode) => {
    const { divergence } = compared(rows(text, code), rows(other, otherCode))
    expect(divergence?.kind).toBe(is)
  })
})

/** Texts by others in places where the server also stores its own texts. */
const OF_OTHERS: [string, (text: string) => Rows, DivergenceKind][] = [
  ['the reason of an agent that skips', (text) => outcome({ kind: 'SKIPPED' })(text, 'SKIPPED'), 'wake-up'],
  ['the summary of a run', (summary) => ({ runs: [run({ summary })] }), 'end'],
  ["a provider's error", (text) => ended({ fault: 'MODEL' })(text, 'MODEL_FAILED'), 'end'],
  ['the failure of an HTTP tool', (text) => failed({ toolName: 'x', execution: 'HTTP' })(text, 'BAD_STATUS'), 'call'],
  ['the failure of an MCP tool', (text) => failed({ toolName: 'files__read' })(text, 'TOOL_FAILED'), 'call'],
  [
    'the answer of a person in the form of a failure',
    (text) => failed({ status: 'DONE', execution: 'SPACE', answeredById: HUSAM, error: null })(text, 'DENIED'),
    'call',
  ],
  [
    'the answer of a service in the form of a failure',
    (text) => failed({ status: 'DONE', execution: 'EXTERNAL', answeredByService: 'Jira', error: null })(text, 'DENIED'),
    'call',
  ],
  ['a note of a tool', (note) => ({ calls: [call({ toolName: 'x', execution: 'HTTP', output: { note } })] }), 'call'],
  ['the subject of a run that a message started', (text) => listed(text, 'space_message'), 'call'],
  ['the text of a message', (text) => ({ messages: [{ ...message(1), parts: [{ type: 'text', text }] }] }), 'message'],
  ["the model's own text", (content) => ({ steps: [step({ assistant: { role: 'assistant', content } })] }), 'end'],
  [
    'an earlier answer in a prompt',
    (content) => ({ steps: [step({ messagesAdded: [{ role: 'assistant', content }] })] }),
    'prompt',
  ],
]

test.each(OF_OTHERS)('%s is a divergence, even if it looks like a text of the server', (_, rows, kind) => {
  expect(compared(rows('Because.'), rows('Therefore.')).divergence?.kind).toBe(kind)
  expect(compared(rows('Because.'), rows('Because.'))).toEqual({ divergence: null, notes: [] })
})

test('a prompt that quotes a failure with another wording is only reported as a note', () => {
  const rows = (failure: string, text: string) => ({
    ...failed({})(failure, 'NO_ACTIVE_SPACE'),
    ...asked(`INBOX (1 event):\n- [TOOL_RESULT x] ${JSON.stringify({ error: { message: text } })}`),
  })
  const [one, other] = ['You are in no space yet: "Team".', 'Enter a space: "Team".']
  expect(compared(rows(one, one), rows(other, other)).divergence).toBe(null)
  expect(compared(rows(one, one), rows(other, 'I am "Team".')).divergence?.kind).toBe('prompt')
})
