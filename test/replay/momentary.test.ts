import { describe, expect, test } from 'vitest'
import { previewMessage } from '../../src/context/inbox-message.ts'
import { createIdMap } from '../../src/replay/ids.ts'
import { inboxSeen, inventedInPreview, isMomentary } from '../../src/replay/momentary.ts'
import { compareInstructions, compareMessages } from '../../src/replay/prompts.ts'
import type { Recording } from '../../src/replay/recording.ts'
import { createWording } from '../../src/replay/wording.ts'

const id = (prefix: string, n: number) => `${prefix}_${String(n).padStart(32, '0')}`
const at = (ms: number) => new Date(Date.UTC(2026, 10, 27, 12) + ms).toISOString()
const [ADA, SPACE, OWN, OTHER] = [id('agt', 1), id('spc', 1), id('run', 1), id('run', 2)]
const [OWN_REPLAYED, OTHER_REPLAYED] = [id('run', 91), id('run', 92)]

const event = (content: string, more: object = {}) => ({
  type: 'SPACE_MESSAGE',
  agentId: ADA,
  payload: { spaceName: 'Team', senderName: 'Husam', content },
  places: [SPACE],
  label: [SPACE],
  askers: [],
  ...more,
})

/**
 * The run reads for its second step between 1000 and 2000 ms. `other` contains when the other run was queued, was last active,
 * and ended.
 */
function recorded(other: [number, number, number | null], messagesAdded: object[] = []): Recording {
  const [queued, worked, finished] = other
  return {
    space: { name: 'Team' },
    messages: [],
    calls: [],
    inboxEvents: [event('Hello'), event('Secret', { agentId: id('agt', 2) })],
    runs: [
      { id: OWN, agentId: ADA, startedAt: at(0), queuedAt: at(0), finishedAt: null },
      {
        id: OTHER,
        agentId: ADA,
        startedAt: at(queued),
        queuedAt: at(queued),
        finishedAt: finished === null ? null : at(finished),
      },
    ],
    steps: [
      { runId: OWN, index: 0, startedAt: at(0), durationMs: 1000, messagesAdded: [] },
      { runId: OWN, index: 1, startedAt: at(2000), durationMs: 10, messagesAdded },
      { runId: OTHER, index: 0, startedAt: at(worked), durationMs: 0, messagesAdded: [] },
    ],
  } as unknown as Recording
}
const stepOf = ({ steps }: Recording) => steps[1] as NonNullable<Recording['steps'][number]>

describe('a run that only one side lists', () => {
  test.each<[string, [number, number, number | null], boolean]>([
    ['began long before and goes on', [-9000, -8000, null], false],
    ['ended long before', [-9000, -8000, -7000], false],
    ['began and ended long afterwards', [9000, 9500, 9600], false],
    ['began just then', [1500, 5000, 9000], true],
    ['began before the clocks of both can agree', [2300, 5000, 9000], true],
    ['ended just then', [-9000, 1500, 1600], true],
    ['was about to end all the time', [-9000, -8000, 9000], true],
  ])('and that %s: may be missing: %s', (_, other, expected) => {
    const recording = recorded(other)
    expect(isMomentary(recording, stepOf(recording), recording.runs[1] as never)).toBe(expected)
  })
})

describe('the lists of other runs in two prompts', () => {
  const prompt = (own: string, ...lines: string[]) =>
    [
      'You are Ada, an agent.\n\nAnswer.',
      'HOW YOU ACT:\nBriefly.',
      `ACTIVE RUNS:\n- Run ${own} (this run) — triggered by Husam in "Team"${lines.map((line) => `\n${line}`).join('')}`,
      lines.length === 0
        ? ''
        : `⚠ You currently have 1 other active run:\n- ${OTHER_REPLAYED} (message: Husam in Team, queued, not started yet)\nUse getMyRuns for full details if needed.`,
    ]
      .filter((text) => text !== '')
      .join('\n\n')
  const ids = createIdMap()
  ids.link(OWN, OWN_REPLAYED)
  ids.link(OTHER, OTHER_REPLAYED)
  const compared = (recordedLines: string[], replayedLines: string[], mayMiss = false) =>
    compareInstructions(
      prompt(OWN, ...recordedLines).replaceAll(OTHER_REPLAYED, OTHER),
      prompt(OWN_REPLAYED, ...replayedLines),
      { ids, wording: createWording(ids, []), isKnown: () => true, mayMiss: () => mayMiss },
    ).map(({ what }) => what)
  const line = (run: string, status: string, text: string) => `- Run ${run} (${status}) — Husam in "Team": "${text}"`

  test('are equal with the same runs, and any status of them', () => {
    expect(compared([line(OTHER, 'queued', 'Hi')], [line(OTHER_REPLAYED, 'waiting_tool', 'Hi')])).toEqual([])
  })
  test('differ in the subject of a run', () => {
    expect(compared([line(OTHER, 'queued', 'Hi')], [line(OTHER_REPLAYED, 'queued', 'Ho')])).toEqual([
      'the section ACTIVE RUNS',
    ])
  })
  test('differ in a run that one of them lacks, unless it may be missing', () => {
    const both = ['the section ACTIVE RUNS', 'the section ⚠ You currently have']
    expect(compared([line(OTHER, 'queued', 'Hi')], [])).toEqual(both)
    expect(compared([], [line(OTHER_REPLAYED, 'queued', 'Hi')])).toEqual(both)
    expect(compared([line(OTHER, 'queued', 'Hi')], [], true)).toEqual([])
    expect(compared([], [line(OTHER_REPLAYED, 'queued', 'Hi')], true)).toEqual([])
  })
  test('differ in a run that the recording does not have', () => {
    expect(compared([], [line(id('run', 99), 'queued', 'Hi')], true)).toEqual(['the section ACTIVE RUNS'])
  })
})

describe('a preview of the inbox', () => {
  const preview = (content: string) => ({
    role: 'user',
    content: previewMessage([event(content)] as never, 1),
  })

  test('is shown in a replay, with the marks of its events', () => {
    const recording = recorded([0, 0, null], [preview('Hello')])
    const [run] = recording.runs as [never]
    const marks = { places: [SPACE], label: [SPACE], askers: [] }
    expect(inboxSeen(recording, run, 1)).toEqual({ type: 'preview', text: preview('Hello').content, marks })
    expect(inboxSeen(recording, run, 0)).toEqual({ type: 'nothing' })
    expect(inboxSeen(recording, run, 2)).toBe(null)
    const urgent = recorded([0, 0, null], [{ role: 'user', content: '[URGENT]\n- x' }])
    expect(inboxSeen(urgent, urgent.runs[0] as never, 1)).toEqual({ type: 'urgent' })
  })
  test('is left out of the comparison, except for messages of the space that nobody has posted to the agent', () => {
    const same = { role: 'user', content: 'Hi' }
    const ids = createIdMap()
    const compared = (replayed: object[]) =>
      compareMessages([same, preview('Hello')], replayed, { ids, wording: createWording(ids, []) })
    expect(compared([same])).toBe(null)
    expect(compared([])).not.toBe(null)
    const invented = (content: string) => {
      const recording = recorded([0, 0, null], [preview(content)])
      return inventedInPreview(recording, ADA, stepOf(recording))
    }
    expect(invented('Hello')).toEqual([])
    expect(invented('Secret')).toEqual(['  [Team] Husam: "Secret..."'])
  })
})
