import { describe, expect, test } from 'vitest'
import type { ShownMessage } from '../../src/doors/operations.ts'
import { chatChunks } from '../../src/doors/responses/chat.ts'
import type { Asked } from '../../src/doors/responses/resource.ts'
import { ResponseEvents } from '../../src/doors/responses/response-events.ts'
import { Transcript } from '../../src/doors/responses/transcript.ts'
import type { TurnView } from '../../src/doors/responses/turn-stream.ts'

const ASKED = { id: 'resp_1', createdAt: 0, metadata: {}, tools: [] } as unknown as Asked

const viewOf = (texts: Record<string, string>, status: TurnView['status'] = 'in_progress'): TurnView => ({
  status,
  items: Object.entries(texts).map(([id, text]) => ({ id, text, isComplete: status !== 'in_progress' })),
  words: [],
  error: null,
  usage: null,
  agentId: null,
  completedAt: null,
})
const LATE = [viewOf({ b: 'Second' }), viewOf({ a: 'First', b: 'Second, longer' }, 'completed')]

const messageOf = (seq: number, text: string, more: Partial<ShownMessage> = {}): ShownMessage => ({
  id: `msg_${seq}`,
  seq,
  status: 'COMPLETE',
  createdAt: '',
  idempotencyKey: null,
  sender: { id: 'agt_1', name: 'Bot', kind: 'AGENT' },
  run: { id: 'run_1', rootId: 'msg_0' },
  parts: [{ __typename: 'TextPart', index: 0, text }],
  ...more,
})

describe('the texts of a turn', () => {
  test('are complete in a response, even if an earlier one appears after a later one was sent', () => {
    const events = new ResponseEvents(ASKED, { startingAfter: -1, maxEventBytes: 1_000_000 })
    const texts: Record<string, string> = {}
    const sent = LATE.flatMap((view) => events.next(view))
    for (const { type, item_id, delta } of sent)
      if (type === 'response.output_text.delta') texts[String(item_id)] = (texts[String(item_id)] ?? '') + String(delta)
    expect(texts).toEqual({ a: 'First', b: 'Second, longer' })
    const places = sent.filter(({ type }) => type === 'response.output_item.added')
    expect(places.map(({ output_index }) => output_index)).toEqual([0, 1])
    const numbers = sent.map(({ sequence_number }) => sequence_number)
    expect(numbers).toEqual([...new Set(numbers)].toSorted((one, other) => one - other))
  })

  test('are complete in a chat completion too', () => {
    const chunks = chatChunks(ASKED, false)
    const sent = LATE.flatMap((view) => chunks.next(view)) as { choices: { delta: { content?: string } }[] }[]
    expect(sent.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe('Second, longer\n\nFirst')
  })

  test('wait while a message before them is not complete, and are read again after an edit', () => {
    const transcript = new Transcript('msg_0')
    transcript.load([messageOf(1, '', { status: 'STREAMING', parts: [] }), messageOf(2, 'Second')])
    expect(transcript.items(false)).toEqual([])
    expect(transcript.items(true)).toMatchObject([{ text: 'Second' }])
    const message = { id: 'msg_2', editedAt: '2026-01-01T00:00:00.000Z', deletedAt: null }
    const apply = (changed: typeof message | { id: string; editedAt: null; deletedAt: null }) =>
      transcript.apply({ __typename: 'MessageUpdated', cursor: '', message: changed })
    expect(apply({ ...message, editedAt: null })).toBe(true)
    expect(apply({ ...message, id: 'msg_other' })).toBe(true)
    expect(apply(message)).toBe(false)
    expect(apply(message)).toBe(true)
  })
})
