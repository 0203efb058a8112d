import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { readChanges, readChecks, readResults } from '../../src/replay/backtest.ts'
import { readRecording, UnusableRecordingError } from '../../src/replay/recording.ts'

const SPACE = `spc_${'1'.repeat(32)}`
const ADA = `agt_${'2'.repeat(32)}`
const HUSAM = `hum_${'3'.repeat(32)}`
const RUN = `run_${'4'.repeat(32)}`
const at = (seconds: number) => new Date(Date.UTC(2026, 10, 27, 12, 0, seconds)).toISOString()
const heading = {
  format: 'parley-recording',
  version: 1,
  release: '0.2.0',
  spaceId: SPACE,
  at: at(0),
  limits: {},
  hasOtherConfidential: false,
  prices: {},
}
const entity = (id: string, name: string) => ({
  table: 'Entity',
  row: { id, name, kind: id.startsWith('agt') ? 'AGENT' : 'HUMAN', goneAt: null },
})
const message = (seq: number, more: object = {}) => ({
  table: 'Message',
  row: {
    id: `msg_${String(seq).padStart(32, '0')}`,
    spaceId: SPACE,
    seq,
    senderId: HUSAM,
    runId: null,
    deletedAt: null,
    createdAt: at(seq),
    parts: [],
    ...more,
  },
})
const run = (more: object = {}) => ({
  table: 'Run',
  row: {
    id: RUN,
    agentId: ADA,
    status: 'COMPLETED',
    stepCount: 0,
    queuedAt: at(1),
    startedAt: at(1),
    finishedAt: at(2),
    ...more,
  },
})
const outcome = (more: object) => ({
  table: 'Outcome',
  row: { messageId: `msg_${'1'.padStart(32, '0')}`, agentId: ADA, reason: null, ...more },
})
const space = (lastSeq: number) => ({ table: 'Space', row: { id: SPACE, lastSeq, createdAt: at(0) } })

function fileOf(lines: object[], first: object = heading): string {
  const body = [first, ...lines].map((line) => JSON.stringify(line))
  const sha256 = createHash('sha256')
    .update(`${body.join('\n')}\n`)
    .digest('hex')
  return [...body, JSON.stringify({ end: true, lines: body.length, sha256 }), ''].join('\n')
}

const FILE_PART = { type: 'file', fileId: 'fil_1', name: 'a.txt', mediaType: 'text/plain' }
const FILE = {
  table: 'File',
  row: { id: 'fil_1', name: 'a.txt', hash: createHash('sha256').update('notes').digest('hex') },
}
const bytesOf = (text: string) => ({ fileId: 'fil_1', data: Buffer.from(text).toString('base64') })

const people = [entity(ADA, 'Ada'), entity(HUSAM, 'Husam')]
const good = fileOf([...people, space(2), message(1), message(2), run()])

describe('a file that cannot be replayed', () => {
  test('does not include a complete recording', () => {
    expect(readRecording('room.jsonl', good).messages).toHaveLength(2)
  })

  test('does not include a recording with the bytes of its files', () => {
    const text = fileOf([...people, space(1), message(1, { parts: [FILE_PART] }), FILE, bytesOf('notes')])
    expect(readRecording('room.jsonl', text).fileBytes.get('fil_1')?.toString()).toBe('notes')
  })

  test.each([
    ['is empty', '', 'is not a Parley recording'],
    ['is foreign', '{"hello":1}\n', 'is not a Parley recording'],
    ['is an export', '{"format":"parley-space","version":2}\n', 'The file is an export'],
    ['is newer', fileOf([], { ...heading, version: 99, release: '9.0.0' }), 'version 99 of the format, which is newer'],
    ['is cut off', good.split('\n').slice(0, -2).join('\n'), 'truncated after line 7'],
    ['is cut off within a line', good.slice(0, -20), 'truncated'],
    ['was edited', good.replace('Husam', 'Mallory'), 'edited or damaged'],
    ['lacks a line', good.split('\n').toSpliced(3, 1).join('\n'), 'lines were removed or added'],
    [
      'has lost its first half by retention',
      fileOf([...people, space(3), message(3)]),
      'first 2 messages are missing: retention',
    ],
    ['has lost a message', fileOf([...people, space(3), message(1), message(3)]), 'The message 2 is missing'],
    ['has lost a journal', fileOf([...people, space(1), message(1), run({ stepCount: 2 })]), '0 of its 2 steps'],
    [
      'has a deleted message that was edited before',
      fileOf([
        ...people,
        space(1),
        message(1, { deletedAt: at(9) }),
        {
          table: 'InboxEvent',
          row: { agentId: ADA, messageId: `msg_${'1'.padStart(32, '0')}`, payload: { change: 'EDITED' } },
        },
      ]),
      'The message 1 was edited before it was deleted',
    ],
    [
      'has an agent that is gone',
      fileOf([{ table: 'Entity', row: { id: ADA, name: 'Ada', goneAt: at(5) } }, space(0)]),
      'The agent "Ada"',
    ],
    [
      'has lost a run that posted nothing',
      fileOf([...people, space(1), message(1), outcome({ kind: 'RUN', runId: RUN })]),
      'The run that message 1 started is missing: retention',
    ],
    [
      'has a message of a run that is not in it',
      fileOf([...people, space(1), message(1, { senderId: ADA, runId: RUN })]),
      'posted by the run',
    ],
    [
      'has a clock that was set back',
      fileOf([...people, space(2), message(1, { createdAt: at(50) }), message(2)]),
      'The clock jumped: the message 2',
    ],
    [
      'has a run that ended before it began',
      fileOf([...people, space(0), run({ finishedAt: at(-60) })]),
      'The clock jumped: the run',
    ],
    [
      'has a message whose text was deleted from its run',
      fileOf([
        ...people,
        space(1),
        message(1, { senderId: ADA, runId: RUN, parts: [{ type: 'text', text: 'Yes.' }] }),
        run(),
        {
          table: 'ToolCall',
          row: {
            id: 'tcl_1',
            runId: RUN,
            input: { text: '[deleted]' },
            output: { messageId: `msg_${'1'.padStart(32, '0')}` },
          },
        },
      ]),
      'The deletion of another message with the same text has removed the text of message 1',
    ],
    ['lacks a file', fileOf([...people, space(1), message(1, { parts: [FILE_PART] })]), 'The file "a.txt"'],
    [
      'has lost the bytes of a file',
      fileOf([...people, space(1), message(1, { parts: [FILE_PART] }), FILE]),
      'The file "a.txt" of the message 1 is missing, or its bytes are damaged',
    ],
    [
      'has other bytes of a file',
      fileOf([...people, space(1), message(1, { parts: [FILE_PART] }), FILE, bytesOf('other')]),
      'The file "a.txt" of the message 1 is missing, or its bytes are damaged',
    ],
    [
      'has an MCP tool that has changed',
      fileOf([
        ...people,
        space(0),
        { table: 'McpServer', row: { agentId: ADA, name: 'shop', listing: [{ name: 'buy', fingerprint: 'new' }] } },
        { table: 'ToolCall', row: { id: 'tcl_1', agentId: ADA, toolName: 'shop__buy' } },
        {
          table: 'AgentVersion',
          row: {
            agentId: ADA,
            number: 1,
            definition: { mcpServers: [{ name: 'shop', fingerprints: { buy: 'old' } }] },
          },
        },
      ]),
      'The tool shop__buy has changed',
    ],
    ['has a table of another format', fileOf([{ table: 'Wine', row: {} }]), 'Line 2 is not a row'],
  ])('%s: the error says so', (_, text, reason) => {
    expect(() => readRecording('room.jsonl', text)).toThrow(UnusableRecordingError)
    expect(() => readRecording('room.jsonl', text)).toThrow(reason)
  })
})

describe('the input of a backtest', () => {
  const recording = readRecording('room.jsonl', good)
  const changes = (...sets: string[]) => readChanges(sets, recording, (path) => `the text of ${path}`)

  test('names agents by name or id, and reads texts from files', () => {
    expect(changes('agent.ada.instructions=@new.md', `agent.${ADA}.maxSteps=3`)).toEqual(
      new Map([[ADA, { instructions: 'the text of new.md', maxSteps: 3 }]]),
    )
  })

  test.each([
    ['ada.model=x', 'is not of the form'],
    ['agent.bob.model=x', 'has no agent "bob"'],
    ['agent.ada.id=x', 'cannot change id'],
    ['agent.ada.maxSteps=many', 'must be valid JSON'],
  ])('refuses %s', (set, reason) => {
    expect(() => changes(set)).toThrow(reason)
  })

  test.each([
    ['{', 'not JSON'],
    ['{}', 'must contain an object'],
    ['{"expect":{"calls":[{"agent":"Ada"}]}}', 'needs tool'],
    ['{"expect":{"sings":[]}}', 'expect.sings is unknown'],
  ])('refuses the checks %s', (text, reason) => {
    expect(() => readChecks(text)).toThrow(reason)
  })

  test('reads results, and needs none', () => {
    const result = { agent: 'Ada', tool: 'refund', output: null }
    expect(readResults(JSON.stringify({ expect: {}, results: [result] }))).toEqual([result])
    expect(readResults('{"expect":{}}')).toEqual([])
  })

  test.each([
    ['{"results":{}}', 'must be a list'],
    ['{"results":[{"agent":"Ada","output":1}]}', 'needs tool'],
    ['{"results":[{"agent":"Ada","tool":"refund"}]}', 'needs output'],
  ])('refuses the results %s', (text, reason) => {
    expect(() => readResults(text)).toThrow(reason)
  })
})
