import { describe, expect, test } from 'vitest'
import { gapsOf } from '../../src/replay/changes.ts'
import { addAfter, inOrder, type Node, type Nodes } from '../../src/replay/order.ts'
import type { Recording } from '../../src/replay/recording.ts'
import { scheduleOf } from '../../src/replay/schedule.ts'

const id = (prefix: string, n: number) => `${prefix}_${String(n).padStart(32, '0')}`
const at = (ms: number) => new Date(Date.UTC(2026, 10, 27, 12) + ms).toISOString()
const [ADA, BOB, EVA, HUSAM, SPACE] = [id('agt', 1), id('agt', 2), id('agt', 3), id('hum', 1), id('spc', 1)]
const [OF_ADA, OF_BOB, OF_EVA] = [id('run', 1), id('run', 2), id('run', 3)]

const message = (seq: number, runId: string | null, [createdAt, routedAt]: [number, number]) => ({
  id: id('msg', seq),
  seq,
  spaceId: SPACE,
  senderId: runId === null ? HUSAM : ADA,
  runId,
  status: 'COMPLETE',
  composite: false,
  runPostKey: runId === null ? null : `tcl_${runId}`,
  threadRootId: null,
  editedAt: null,
  parts: [{ type: 'text', text: `Text ${seq}` }],
  createdAt: at(createdAt),
  routedAt: at(routedAt),
})
const run = (runId: string, agentId: string, trigger: number, [startedAt, finishedAt]: [number, number]) => ({
  id: runId,
  agentId,
  triggerType: 'SPACE_MESSAGE',
  triggerMessageId: id('msg', trigger),
  status: 'COMPLETED',
  threadRootId: null,
  wokenBy: null,
  retryOfId: null,
  stopReason: 'FINISHED',
  stoppedById: null,
  state: {},
  queuedAt: at(startedAt),
  startedAt: at(startedAt),
  finishedAt: at(finishedAt),
  enteredSeq: trigger,
})
const step = (runId: string, [startedAt, durationMs]: [number, number], shown: number[], enteredSeq: number) => ({
  runId,
  index: 0,
  instructions: null,
  enteredSeq,
  startedAt: at(startedAt),
  durationMs,
  finishReason: 'stop',
  messagesAdded: shown.map((seq) => ({
    role: 'user',
    content: JSON.stringify({ id: id('msg', seq), text: `Text ${seq}` }),
  })),
})
const call = (runId: string, createdAt: number) => ({
  id: `tcl_${runId}`,
  runId,
  agentId: ADA,
  stepIndex: 0,
  modelCallId: '1',
  toolName: 'send_message',
  execution: null,
  status: 'DONE',
  input: { text: 'x' },
  output: {},
  approvalState: null,
  messageId: null,
  createdAt: at(createdAt),
  settledAt: at(createdAt + 1),
  answeredById: null,
  answeredByService: null,
})

/**
 * Ada and Bob answer a person at the same time. Ada's message wakes Eva. `shown` are the messages in Eva's prompt, and
 * `entered` is the last message at the time when she entered the space.
 */
function recordingWith(shown: number[], entered: number): Recording {
  return {
    space: { id: SPACE, createdAt: at(0) },
    messages: [message(1, null, [0, 0]), message(2, OF_ADA, [20, 30]), message(3, OF_BOB, [28, 32])],
    runs: [run(OF_ADA, ADA, 1, [10, 40]), run(OF_BOB, BOB, 1, [10, 40]), run(OF_EVA, EVA, 2, [31, 40])],
    steps: [step(OF_ADA, [15, 15], [1], 1), step(OF_BOB, [15, 14], [1], 1), step(OF_EVA, [34, 5], shown, entered)],
    calls: [call(OF_ADA, 30), call(OF_BOB, 29)],
    outcomes: [
      { messageId: id('msg', 1), agentId: ADA, runId: OF_ADA },
      { messageId: id('msg', 1), agentId: BOB, runId: OF_BOB },
      { messageId: id('msg', 2), agentId: EVA, runId: OF_EVA },
    ],
    messageVersions: [],
    reactions: [],
    decisions: [],
    entities: [],
    memberships: [],
    formerMembers: [],
    versions: [],
    memories: [],
    goals: [],
    plans: [],
    firings: [],
    inboxEvents: [],
    audit: [],
    grants: [],
    grantDecisions: [],
    castLines: [],
    files: [],
    mcpServers: [],
  } as unknown as Recording
}

/**
 * Returns the positions of these actions in the schedule: when Ada and Bob finish, when Bob's message begins, and when Eva
 * reads.
 */
function placesIn(recording: Recording) {
  const names = scheduleOf(recording).map(({ action }) =>
    'run' in action
      ? `${action.type} ${action.run.id}`
      : 'message' in action
        ? `${action.type} ${action.message.seq}`
        : '',
  )
  const place = (name: string) => names.indexOf(name)
  return {
    ada: place(`answer ${OF_ADA}`),
    bob: place(`answer ${OF_BOB}`),
    begun: place('post 3'),
    eva: place(`begin ${OF_EVA}`),
  }
}

describe('of agents that work at the same time, an agent that is woken', () => {
  test('reads after the messages that it was shown are finished', () => {
    const { ada, bob, begun, eva } = placesIn(recordingWith([1, 2, 3], 3))
    expect([begun < ada, ada < eva, bob < eva]).toEqual([true, true, true])
  })
  test('reads before a message is finished that had begun and was not shown', () => {
    const { ada, bob, begun, eva } = placesIn(recordingWith([1, 2], 3))
    expect([begun < ada, ada < eva, eva < bob]).toEqual([true, true, true])
  })
  test('is woken before a message begins up to which it was not shown the space', () => {
    const { ada, begun, eva } = placesIn(recordingWith([1, 2], 2))
    expect([ada < begun, ada < eva]).toEqual([true, true])
  })
})

describe('a run whose call waits', () => {
  const WAITED = 'WHILE YOU WAITED: (said since)'

  /** Ada's call waits, and is made at 30. Bob's message is finished at `routedAt`; its step has dates up to `answeredAt`. */
  function waiting(routedAt: number, answeredAt: number, isShown: boolean): Recording {
    const recording = recordingWith([1], 1)
    const line = JSON.stringify({ id: id('msg', 3), text: 'Text 3' })
    const messagesAdded = isShown ? [{ role: 'user', content: `${WAITED}\n${line}` }] : []
    return {
      ...recording,
      messages: [message(1, null, [0, 0]), message(2, OF_EVA, [20, 21]), message(3, OF_BOB, [22, routedAt])],
      runs: recording.runs.slice(0, 2),
      steps: [
        step(OF_ADA, [15, 15], [1], 1),
        { ...step(OF_ADA, [60, 5], [], 1), index: 1, messagesAdded },
        step(OF_BOB, [15, answeredAt - 15], [1], 1),
      ],
      calls: [{ ...call(OF_ADA, 30), toolName: 'refund', approvalState: 'APPROVED' }, call(OF_BOB, routedAt)],
    } as unknown as Recording
  }

  test('makes its call after a message that was finished before the wait', () => {
    const { ada, bob } = placesIn(waiting(29, 32, false))
    expect(bob < ada).toBe(true)
  })
  test('makes its call before a message is finished that began before the wait and was shown after it', () => {
    const { ada, begun, bob } = placesIn(waiting(31, 28, true))
    expect([begun < ada, ada < bob]).toEqual([true, true])
  })
})

test('actions never depend on one another in a circle', () => {
  const node = (key: string, ms: number): [string, Node] => [key, { key, at: ms, after: [], action: { key } as never }]
  const nodes: Nodes = new Map([node('a', 3), node('b', 2), node('c', 1)])
  addAfter(nodes, 'b', 'a')
  addAfter(nodes, 'c', 'b')
  addAfter(nodes, 'a', 'c')
  expect(inOrder(nodes).map(({ action }) => (action as unknown as Node).key)).toEqual(['a', 'b', 'c'])
})

test('changes by people that a recording only mentions are listed with their times', () => {
  const entry = (action: string, targetId: string, detail: object) => ({ action, targetId, detail, at: at(50) })
  const audit = [
    entry('setMemories', ADA, {}),
    entry('updateSpace', SPACE, { fields: ['id', 'name', 'routing'], routing: 'ADMIN' }),
    entry('stopRun', OF_ADA, {}),
  ]
  const recording = { ...recordingWith([1], 1), audit, entities: [{ id: ADA, name: 'Ada' }] } as unknown as Recording
  expect(gapsOf(recording, Date.parse(at(0)))).toEqual([
    expect.stringMatching(`^At ${at(50)} somebody changed the memories of "Ada" outside of runs`),
    expect.stringMatching(`^At ${at(50)} somebody changed the name of the space`),
  ])
})
