import fc from 'fast-check'
import { beforeEach, describe, expect, test } from 'vitest'
import type { Message, SpaceEvent } from '../../client/space-events.ts'
import { createTranscript, type Transcript } from '../../client/transcript.ts'
import { createRandomSpace, type RandomSpace } from './random-space.ts'

const textPart = (text: string) => ({ __typename: 'TextPart' as const, id: 'msg_1:0', index: 0, text })
const message = (status: Message['status'], text = ''): Message => ({
  id: 'msg_1',
  seq: 1,
  status,
  createdAt: '2026-11-22T00:00:00Z',
  sender: { id: 'agt_1', name: 'Iris', kind: 'AGENT' },
  actingAdmin: null,
  mentionedAgent: null,
  mentions: [],
  run: null,
  origin: null,
  outcomes: [],
  waitingCall: null,
  rootUsage: null,
  editedAt: null,
  deletedAt: null,
  replyTo: null,
  threadRootId: null,
  reactions: [],
  parts: text === '' ? [] : [textPart(text)],
})
const posted = (now: Message): SpaceEvent => ({ __typename: 'MessagePosted', cursor: 'c', message: now })
const updated = (now: Message): SpaceEvent => ({ __typename: 'MessageUpdated', cursor: 'c', message: now })
const pageOf = (hasPreviousPage: boolean, ...nodes: Message[]) => ({
  edges: nodes.map((node) => ({ node })),
  pageInfo: { hasPreviousPage },
})
const finished = (now: Message): SpaceEvent => ({ __typename: 'MessageFinished', cursor: 'c', message: now })
const delta = (offset: number, text: string): SpaceEvent => ({
  __typename: 'MessageTextDelta',
  cursor: 'c',
  messageId: 'msg_1',
  partIndex: 0,
  offset,
  delta: text,
})

const replaced = (offset: number, text: string): SpaceEvent => ({
  __typename: 'MessageTextReplaced',
  cursor: 'c',
  messageId: 'msg_1',
  partIndex: 0,
  offset,
  text,
})

describe("the client's state of a space", () => {
  let transcript: Transcript
  const take = (...events: SpaceEvent[]) => {
    for (const event of events) transcript.apply(event)
  }
  const texts = () =>
    transcript.messages().map(({ parts }) => parts.map((part) => ('text' in part ? part.text : '')).join())

  beforeEach(() => {
    transcript = createTranscript()
  })

  test('a message grows by its deltas, and in the end equals what the server returns', () => {
    take(posted(message('STREAMING')), delta(0, 'Hello'), delta(5, ' Ada'))
    expect(texts()).toEqual(['Hello Ada'])
    take(finished(message('COMPLETE', 'Hello Ada!')))
    expect(texts()).toEqual(['Hello Ada!'])
  })

  test('repeated events change nothing, not even object identity, and overlaps are discarded', () => {
    take(posted(message('STREAMING')), delta(0, 'Hello'))
    const before = transcript.messages()
    take(delta(0, 'Hello'), delta(2, 'llo'))
    expect(transcript.messages()).toBe(before)
    take(delta(3, 'lo Ada'))
    expect(texts()).toEqual(['Hello Ada'])
    take(posted(message('STREAMING', 'Hello')))
    expect(texts()).toEqual(['Hello Ada'])
  })

  test('a delta after a gap waits, and the gap is reported until it is filled', () => {
    take(posted(message('STREAMING')), delta(0, 'Hello'), delta(9, '!'))
    expect([texts(), transcript.gaps()]).toEqual([['Hello'], ['msg_1']])
    transcript.put(message('STREAMING', 'Hello Ada'))
    expect([texts(), transcript.gaps()]).toEqual([['Hello Ada!'], []])
  })

  test('a replacement changes the text from its offset on, once', () => {
    take(posted(message('STREAMING')), delta(0, 'Hello wor'), replaced(6, 'Ad'), delta(8, 'a'))
    expect(texts()).toEqual(['Hello Ada'])
    take(replaced(6, 'Ad'), delta(8, 'a'))
    expect(texts()).toEqual(['Hello Ada'])
    take(replaced(5, ''))
    expect(texts()).toEqual(['Hello'])
    take(finished(message('COMPLETE', 'Hello')), replaced(0, 'Bye'))
    expect(texts()).toEqual(['Hello'])
  })

  test('a replacement and the deltas after it wait for the text before them, in order', () => {
    take(
      posted(message('STREAMING')),
      delta(0, 'Hello'),
      replaced(9, 'B'),
      delta(10, 'ea'),
      replaced(9, 'C'),
      delta(10, 'leo'),
    )
    expect([texts(), transcript.gaps()]).toEqual([['Hello'], ['msg_1']])
    transcript.put(message('STREAMING', 'Hello to Ada'))
    expect([texts(), transcript.gaps()]).toEqual([['Hello to Cleo'], []])
  })

  test('an unknown event is ignored', () => {
    take(posted(message('COMPLETE', 'Hello')), { __typename: 'MessageSung', cursor: 'c' } as unknown as SpaceEvent)
    expect([texts(), transcript.gaps()]).toEqual([['Hello'], []])
  })

  test('evicted messages ignore events and are not requested until a page loads them again', () => {
    const second: Message = { ...message('COMPLETE', 'Bye'), id: 'msg_2', seq: 2 }
    take(posted(message('STREAMING')), delta(0, 'Hello'), posted(second))
    const late = transcript.beginPage()
    transcript.keepNewest(0)
    late(pageOf(false))
    expect([texts(), transcript.hasEarlier]).toEqual([['Bye'], true])
    take(delta(5, ' Ada'), delta(20, '!'), updated(message('STREAMING', 'Hello Ada')))
    expect([texts(), transcript.gaps()]).toEqual([['Bye'], []])
    take(finished(message('COMPLETE', 'Hello Ada!')), delta(0, 'Hello'))
    expect(texts()).toEqual(['Bye'])
    const page = transcript.beginPage()
    take(updated(message('COMPLETE', 'Hello Ada!')))
    page(pageOf(false, message('STREAMING', 'Hello')))
    expect([texts(), transcript.hasEarlier]).toEqual([['Hello Ada!', 'Bye'], false])
  })

  test('a failed page changes nothing and can be requested again', () => {
    take(posted({ ...message('COMPLETE', 'Bye'), id: 'msg_2', seq: 2 }), posted({ ...message('COMPLETE'), seq: 1 }))
    transcript.keepNewest(1)
    transcript.beginPage()(null)
    expect([texts(), transcript.hasEarlier]).toEqual([['Bye'], true])
    transcript.beginPage()(pageOf(false, message('COMPLETE', 'Hello')))
    expect(texts()).toEqual(['Hello', 'Bye'])
  })

  test('any interruption, order and repetition of events, with pages and evictions, ends in the state of the database', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 2 ** 30 }), { minLength: 20, maxLength: 400, size: 'max' }),
        (choices) => {
          const kept = 1 + ((choices[0] ?? 0) % 7)
          const space: RandomSpace = createRandomSpace(choices)
          const known = createTranscript()
          space.play(known)
          expect(known.messages()).toEqual(space.database().slice(-known.messages().length))
          known.keepNewest(kept)
          expect(known.messages()).toEqual(space.database().slice(-known.messages().length))
          expect(known.messages().length).toBeLessThanOrEqual(kept)
          space.loadAll(known)
          expect([known.messages(), known.gaps()]).toEqual([space.database(), []])
        },
      ),
      { numRuns: 300 },
    )
  })
})
