import { expect, test } from 'vitest'
import { outcomeOf } from '../../web/inspect/run-outcome.ts'

const done = (toolName: string) => ({ toolName, status: 'DONE' })
const ended = { status: 'COMPLETED', stopReason: 'FINISHED', toolCalls: [] }

test.each([
  ['a run that failed', { ...ended, status: 'FAILED' }, { state: 'FAILED', words: null }],
  [
    'an approval that is missing',
    { ...ended, status: 'WAITING_TOOL', toolCalls: [{ toolName: 'order', status: 'WAITING', waitsFor: 'DECISION' }] },
    { state: 'NEEDS_APPROVAL', words: null },
  ],
  ['silence', { ...ended, stopReason: 'SKIPPED', toolCalls: [done('skip')] }, { state: 'SAID_NOTHING', words: null }],
  ['delegation', { ...ended, stopReason: 'HANDED_ON' }, { state: 'DELEGATED', words: null }],
  ['an answer', { ...ended, toolCalls: [done('send_message'), done('order')] }, { state: 'ANSWERED', words: null }],
  ['a tool', { ...ended, toolCalls: [done('order_fleece')] }, { state: 'COMPLETED', words: 'order fleece' }],
  [
    'a message that was not sent',
    { ...ended, toolCalls: [{ toolName: 'send_message', status: 'FAILED' }] },
    { state: 'COMPLETED', words: null },
  ],
])('the outcome of a run is %s', (_, run, outcome) => {
  expect(outcomeOf(run)).toEqual(outcome)
})
