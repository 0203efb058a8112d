import { describe, expect, test } from 'vitest'
import { mergeDeliveries } from '../../src/delivery/backpressure.ts'
import type { Delivery } from '../../src/delivery/feed.ts'

interface Event {
  type: string
  cursor: string
  [field: string]: unknown
}

const told = (events: readonly object[]): Delivery<Event>[] =>
  events.map((event, n) => ({ shareKey: {}, event: { cursor: String(n + 1), ...event } as Event }))
const merged = (...events: object[]) => mergeDeliveries(told(events)).map(({ event }) => event)
const text = (messageId: string, offset: number, delta: string, partIndex = 0) => ({
  type: 'MessageTextDelta',
  messageId,
  partIndex,
  offset,
  delta,
})

describe('the waiting events of a subscriber that exceeds its pace', () => {
  test('consecutive deltas of one text become one, with the cursor of the last', () => {
    expect(merged(text('a', 0, 'One '), text('a', 4, 'two '), text('a', 8, 'three'))).toEqual([
      { ...text('a', 0, 'One two three'), cursor: '3' },
    ])
  })

  test.each([
    ['another message', text('b', 4, 'two')],
    ['another part', text('a', 4, 'two', 1)],
    ['a text with a gap', text('a', 3, 'two')],
    ['another event', { type: 'MessageFinished', messageId: 'a' }],
  ])('a delta before %s is not merged', (_, second) => {
    expect(merged(text('a', 0, 'One '), second)).toHaveLength(2)
  })

  test('interleaved deltas of two texts are not merged: a cursor between them would skip some', () => {
    expect(merged(text('a', 0, 'A'), text('b', 0, 'B'), text('a', 1, 'A'), text('b', 1, 'B'))).toHaveLength(4)
  })

  test('deltas of a run are merged only within one step, call and label', () => {
    const delta = (step: number, confidential?: true) => ({
      type: 'RunTextDelta',
      step,
      delta: '.',
      ...(confidential ? { confidential } : {}),
    })
    expect(merged(delta(1), delta(1), delta(2), delta(2, true), delta(2, true)).map((event) => event['delta'])).toEqual(
      ['..', '.', '..'],
    )
    const input = (toolCallId: string) => ({ type: 'RunToolInputDelta', step: 1, toolCallId, delta: '.' })
    expect(merged(input('x'), input('x'), input('y'))).toHaveLength(2)
  })

  test('no event becomes large', () => {
    const long = 'x'.repeat(5000)
    expect(merged(text('a', 0, long), text('a', 5000, long))).toHaveLength(2)
  })

  test('the first and the last of many changes of one object are kept, at their positions', () => {
    const change = { type: 'MessagePartChanged', messageId: 'a', partIndex: 0 }
    const other = { type: 'MessagePartChanged', messageId: 'a', partIndex: 1 }
    expect(merged(change, change, other, change, change).map(({ cursor }) => cursor)).toEqual(['1', '3', '5'])
  })

  test('no other event is dropped', () => {
    const events = ['MessagePosted', 'MessageFinished', 'MemberJoined', 'MemberLeft'].flatMap((type) => [
      { type, messageId: 'a' },
      { type, messageId: 'a' },
    ])
    expect(merged(...events)).toHaveLength(events.length)
  })

  test('random events keep the text of each message, and no cursor skips a delta', () => {
    for (let seed = 1; seed <= 300; seed++) {
      const events = randomEvents(seed)
      const all = mergeDeliveries(told(events)).map(({ event }) => event)
      expect(textsOf(all)).toEqual(textsOf(events))
      for (const [index, { cursor }] of all.entries()) {
        expect(textsOf(all.slice(0, index + 1))).toEqual(textsOf(events.slice(0, Number(cursor))))
      }
    }
  })
})

/** Returns deltas and changes of three messages, in random order. */
function randomEvents(seed: number): object[] {
  let state = seed
  const next = (most: number) => {
    state = (state * 1103515245 + 12345) % 2147483648
    return Math.floor((state / 2147483648) * most)
  }
  const lengths = new Map<string, number>()
  return Array.from({ length: 40 }, () => {
    const messageId = 'abc'[next(3)]!
    if (next(4) === 0) return { type: 'MessageUpdated', messageId }
    const offset = lengths.get(messageId) ?? 0
    const delta = '.'.repeat(1 + next(3))
    lengths.set(messageId, offset + delta.length)
    return text(messageId, offset, delta)
  })
}

function textsOf(events: readonly object[]): Record<string, string> {
  const texts: Record<string, string> = {}
  for (const event of events as { messageId: string; offset?: number; delta?: string }[]) {
    if (event.delta === undefined) continue
    const known = texts[event.messageId] ?? ''
    expect(event.offset).toBe(known.length)
    texts[event.messageId] = known + event.delta
  }
  return texts
}
