import { describe, expect, test } from 'vitest'
import { hintOn, type PlainTextRun, placeOfPlainText, postablePlainText } from '../../src/rules/plain-text.ts'

const RUN: PlainTextRun = { triggerType: 'SPACE_MESSAGE', triggerSpaceId: 'trigger', activeSpaceId: null, sources: [] }
const cycle = (...sources: PlainTextRun['sources']): PlainTextRun => ({ ...RUN, triggerType: 'INBOX', sources })
const message = (spaceId: string) => ({ type: 'SPACE_MESSAGE', spaceId })

describe('the place where a closing text is posted', () => {
  test.each<[string, PlainTextRun, string | null]>([
    ['is the space of the trigger', RUN, 'trigger'],
    ['is the active space', { ...RUN, activeSpaceId: 'active' }, 'active'],
    ['is none for a plan', { ...RUN, triggerType: 'PLAN', activeSpaceId: 'active' }, null],
    ['is none for a service', { ...RUN, triggerType: 'SERVICE', activeSpaceId: 'active' }, null],
    ["is the space of a cycle's events", cycle(message('one'), message('one')), 'one'],
    ['is none for a cycle with events of two spaces', cycle(message('one'), message('two')), null],
    ['is the active space of such a cycle', { ...cycle(message('one'), message('two')), activeSpaceId: 'two' }, 'two'],
    ['is none for a cycle with a plan among its events', cycle(message('one'), { type: 'PLAN', spaceId: 'one' }), null],
    ['is none for a cycle of plans', { ...cycle({ type: 'PLAN', spaceId: null }), activeSpaceId: 'active' }, null],
  ])('%s', (_, run, place) => {
    expect(placeOfPlainText(run)).toBe(place)
  })
})

test('a closing text is posted without surrounding space, and cut to the length of a message', () => {
  expect(postablePlainText('  Hello \n')).toBe('Hello')
  expect(postablePlainText(' \n')).toBeNull()
  expect(postablePlainText(null)).toBeNull()
  expect(postablePlainText('x'.repeat(40_000))).toHaveLength(32_000)
})

test.each([
  ['INTERNAL', 'Hello', /Set plainText to SPOKEN_IF_SILENT/],
  ['SPOKEN_IF_SILENT', 'Hello', /was not posted/],
  ['SPOKEN_IF_SILENT', '<tool_call>say hello</tool_call>', /not a JSON object/],
  ['INTERNAL', '<tool_call>{"name":"shout","arguments":{}}</tool_call>', /no tool shout/],
])('the hint of %s on %s', (plainText, summary, hint) => {
  expect(hintOn({ summary, plainText })).toMatch(hint)
})
