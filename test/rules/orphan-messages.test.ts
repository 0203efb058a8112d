import { describe, expect, test } from 'vitest'
import type { MessagePart } from '../../src/rules/message.ts'
import { type BegunMessage, isOrphan } from '../../src/rules/orphan-messages.ts'

const single: BegunMessage = {
  status: 'STREAMING',
  composite: false,
  fromPlainText: false,
  runPostKey: 'tcl_1',
  parts: [],
}
const composite = (...parts: MessagePart[]): BegunMessage => ({
  status: 'STREAMING',
  composite: true,
  fromPlainText: false,
  runPostKey: 'spc_1:0',
  parts,
})

const text: MessagePart = { type: 'text', text: 'Whole.' }
const textSoFar: MessagePart = { type: 'text', text: 'Unfini', unfinished: true }
const call: MessagePart = { type: 'tool', toolCallId: 'tcl_1' }
const callSoFar: MessagePart = { type: 'tool', toolCallId: 'tcl_1', unfinished: true }

describe('isOrphan, when a worker has died', () => {
  test.each<[string, BegunMessage, string[], boolean]>([
    ['a message whose call is open is continued by the call', single, ['tcl_1'], false],
    ['a message whose call is settled or not journaled is an orphan', single, [], true],
    ['a message of another call than the open one is an orphan', single, ['tcl_2'], true],
    ['a message that waits for an answer is none', { ...single, status: 'REQUIRES_ACTION' }, [], false],
    ['a finished message is none', { ...single, status: 'COMPLETE' }, [], false],
    ['an interrupted message is none', { ...single, status: 'INTERRUPTED' }, [], false],
    ['the closing text of the run is posted again', { ...single, fromPlainText: true }, [], false],
    ['a composite message of whole parts stays open', composite(text, call), [], false],
    ['a composite message without parts stays open', composite(), [], false],
    ['a text that an open call streams is continued', composite(textSoFar), ['tcl_1'], false],
    ['a text without an open call is lost', composite(text, textSoFar), [], true],
    ['a call whose input streamed and that is journaled is continued', composite(callSoFar), ['tcl_1'], false],
    ['a call whose input streamed and that is not journaled is lost', composite(text, callSoFar), [], true],
    ['a call that streamed beside another open call is lost', composite(callSoFar), ['tcl_2'], true],
  ])('%s', (_, message, openCalls, orphan) => {
    expect(isOrphan(message, new Set(openCalls))).toBe(orphan)
  })
})
