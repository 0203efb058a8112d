import { expect, test } from 'vitest'
import { createWaitingChanges, type ViewerChange } from '../../src/delivery/feeds/viewer.ts'

const changed = (spaceId: string): ViewerChange => ({ type: 'ViewerSpaceChanged', spaceId })
const removed = (spaceId: string): ViewerChange => ({ type: 'ViewerSpaceRemoved', spaceId })
const added = (spaceId: string): ViewerChange => ({ type: 'ViewerSpaceAdded', spaceId })
const call = (type: 'ViewerToolCallWaiting' | 'ViewerToolCallChanged', toolCallId: string): ViewerChange => ({
  type,
  toolCallId,
})
const snapshot: ViewerChange = { type: 'ViewerSnapshot' }

test.each<[string, ViewerChange[], ViewerChange[]]>([
  ['a space that changes again waits once', [changed('a'), changed('b'), changed('a')], [changed('a'), changed('b')]],
  [
    'a space that returns and changes is published again, in order',
    [changed('a'), removed('a'), added('a'), changed('a')],
    [changed('a'), removed('a'), added('a'), changed('a')],
  ],
  [
    'a call that was edited often waits once after its arrival',
    [call('ViewerToolCallWaiting', 't'), call('ViewerToolCallChanged', 't'), call('ViewerToolCallChanged', 't')],
    [call('ViewerToolCallWaiting', 't'), call('ViewerToolCallChanged', 't')],
  ],
  ['a snapshot stands for what waited before it', [changed('a'), snapshot, changed('a')], [snapshot, changed('a')]],
])('%s', (_, changes, expected) => {
  const waiting = createWaitingChanges()
  for (const change of changes) waiting.add(change)
  expect(waiting.count()).toBe(expected.length)
  expect(Array.from({ length: expected.length }, waiting.next)).toEqual(expected)
  expect(waiting.next()).toBeUndefined()
})

test('a change that was delivered waits again after another change', () => {
  const waiting = createWaitingChanges()
  waiting.add(changed('a'))
  expect(waiting.next()).toEqual(changed('a'))
  waiting.add(changed('a'))
  expect(waiting.next()).toEqual(changed('a'))
})
