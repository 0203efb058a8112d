import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { backtest } from '../../src/replay/backtest.ts'
import { junitOf, markdownOf } from '../../src/replay/backtest-report.ts'
import { readRecording } from '../../src/replay/recording.ts'
import { replay } from '../../src/replay/replay.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { type BookedService, openService } from '../support/decisions.ts'
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

describe('a change that was made to a recording', () => {
  let parley: TestApplication
  let service: BookedService
  let text: string
  let names: string[]
  beforeAll(async () => {
    parley = await startApplication({ isFresh: true })
    service = await openService()
    const { spaceId, agents } = await playRoom(parley, KIND, service.url)
    names = agents.map(({ name }) => name)
    text = (await recordingOf(parley, spaceId)).text
  })
  afterAll(async () => {
    await parley.close()
    await service.close()
  })

  /** Changes the first row of a table for which `change` does not return false. */
  const planted = (table: string, change: (row: Row) => unknown) => {
    let isDone = false
    const changed = edited(text, (value) => {
      if (!isDone && value.table === table && value.row !== undefined) isDone = change(value.row) !== false
    })
    expect(isDone).toBe(true)
    return readRecording('planted.jsonl', changed)
  }

  const fills =
    (fields: object, isMeant: (row: Row) => boolean = () => true) =>
    (row: Row) => {
      if (!isMeant(row)) return false
      Object.assign(row, fields)
      return true
    }
  const isCallOf = (name: string) => (row: Row) => row['toolName'] === name
  const text1 = (words: string) => ({ parts: [{ type: 'text', text: words }] })

  test.each<[string, string, (row: Row) => unknown, string]>([
    ['the outcome of a message', 'Outcome', fills({ kind: 'NOT_ROUTED' }), 'wake-up'],
    ['the routing of the space', 'Space', fills({ routing: 'MENTION_CHAIN' }), 'wake-up'],
    ['the text of a person', 'Message', fills(text1('Good bye.')), 'prompt'],
    ['the instructions of an agent', 'Agent', fills({ instructions: 'Sing.' }), 'prompt'],
    ['a prompt', 'Step', fills({ messagesAdded: [{ role: 'user', content: '"something else"' }] }), 'prompt'],
    ['the tools of an agent', 'Step', (row) => row['activeTools'].push('fly'), 'prompt'],
    ['the arguments of a call', 'ToolCall', fills({ input: { amount: 43 } }, isCallOf('refund')), 'arguments'],
    ['the text of a call', 'ToolCall', fills({ input: { text: 'x' } }, isCallOf('send_message')), 'arguments'],
    [
      'the result of a built-in tool',
      'ToolCall',
      fills({ output: { success: true } }, isCallOf('enter_space')),
      'call',
    ],
    ['the approval of a call', 'Decision', fills({ approve: false }), 'call'],
    ['the message of an agent', 'Message', fills(text1('x'), (row) => row['runId'] !== null), 'message'],
    ['the cost of a step', 'Step', fills({ costNanos: 7 }), 'budget'],
    ['the reason of an end', 'Run', fills({ stopReason: 'MAX_STEPS' }), 'end'],
    ['the summary of a run', 'Run', fills({ summary: 'x' }), 'end'],
  ])('%s is reported at its first divergence', async (_, table, change, kind) => {
    const { isEqual, divergence } = await replay(planted(table, change))
    expect([isEqual, divergence?.kind], JSON.stringify(divergence)).toEqual([false, kind])
    expect(divergence?.recorded).not.toBe(divergence?.replayed)
    expect(divergence?.cause).toMatch(/\.$/)
  })

  test('a change of the server’s own wording is only a note', async () => {
    const recording = planted('Step', (row) => {
      row['instructions'] = row['instructions'].replace('HOW YOU ACT:\n', 'HOW YOU ACT:\nBe kind to everybody.\n')
    })
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
  })
})
