import { beforeEach, describe, expect, test } from 'vitest'
import {
  apply,
  createTranscript,
  inOrder,
  type Message,
  type SpaceEvent,
  type Transcript,
} from '../../web/transcript.ts'

const textPart = (text: string) => ({ __typename: 'TextPart' as const, id: 'msg_1:0', index: 0, text })
const message = (status: Message['status'], text = ''): Message => ({
  id: 'msg_1',
  seq: 1,
  status,
  createdAt: '2026-11-22T00:00:00Z',
  sender: { id: 'agt_1', name: 'Iris', kind: 'AGENT' },
  mentionedAgent: null,
  parts: text === '' ? [] : [textPart(text)],
})
const posted = (now: Message): SpaceEvent => ({ __typename: 'MessagePosted', cursor: 'c', message: now })
const finished = (now: Message): SpaceEvent => ({ __typename: 'MessageFinished', cursor: 'c', message: now })
const delta = (offset: number, text: string): SpaceEvent => ({
  __typename: 'MessageTextDelta',
  cursor: 'c',
  messageId: 'msg_1',
  partIndex: 0,
  offset,
  delta: text,
})

describe('what the console knows of a space', () => {
  let transcript: Transcript
  const take = (...events: SpaceEvent[]) => events.map((event) => apply(transcript, event).type)
  const texts = () =>
    inOrder(transcript).map(({ parts }) =>
      parts.map((part) => (part.__typename === 'TextPart' ? part.text : '')).join(),
    )

  beforeEach(() => {
    transcript = createTranscript()
  })

  test('a message grows by its deltas, and is then as the server says', () => {
    take(posted(message('STREAMING')), delta(0, 'Hello'), delta(5, ' Ada'))
    expect(texts()).toEqual(['Hello Ada'])
    take(finished(message('COMPLETE', 'Hello Ada!')))
    expect(texts()).toEqual(['Hello Ada!'])
  })

  test('events that come twice change nothing, and an overlap is dropped', () => {
    take(posted(message('STREAMING')), delta(0, 'Hello'))
    expect(take(delta(0, 'Hello'), delta(2, 'llo'))).toEqual(['none', 'none'])
    take(delta(3, 'lo Ada'))
    expect(texts()).toEqual(['Hello Ada'])
    take(posted(message('STREAMING', 'Hello')))
    expect(texts()).toEqual(['Hello Ada'])
  })

  test('a delta after a gap, of an unknown message, and an event of a kind to come are let go', () => {
    take(posted(message('STREAMING')), delta(0, 'Hello'))
    const unknown = { __typename: 'MessageSung', cursor: 'c' } as unknown as SpaceEvent
    const foreign = { ...delta(0, 'x'), messageId: 'msg_2' } as SpaceEvent
    expect(take(delta(9, '!'), foreign, unknown)).toEqual(['none', 'none', 'none'])
    expect(texts()).toEqual(['Hello'])
  })

  test('a snapshot takes the place of what was known', () => {
    take(posted(message('STREAMING', 'Old')))
    const newer = { ...message('COMPLETE', 'New'), id: 'msg_2', seq: 2 }
    const space = { id: 'spc_1', name: 'Kitchen', description: null, routing: 'BROADCAST' as const, members: [] }
    const messages = { edges: [{ node: newer }], pageInfo: { hasPreviousPage: true } }
    take({ __typename: 'SpaceSnapshot', cursor: 'c', space: { ...space, messages } })
    expect([texts(), transcript.hasEarlier, transcript.space?.name]).toEqual([['New'], true, 'Kitchen'])
  })
})
