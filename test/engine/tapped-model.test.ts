import { streamText } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import { describe, expect, test } from 'vitest'
import { tapModel } from '../../src/engine/tapped-model.ts'
import type { StreamPart } from '../../src/models/language-model.ts'

const USAGE = {
  inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: 1, reasoning: undefined },
}
const FINISH: StreamPart = { type: 'finish', usage: USAGE, finishReason: { unified: 'stop', raw: 'stop' } }
const text = (delta: string, id = 't'): StreamPart => ({ type: 'text-delta', id, delta })
const input = (delta: string, id: string): StreamPart => ({ type: 'tool-input-delta', id, delta })
const began = (id: string): StreamPart => ({ type: 'tool-input-start', id, toolName: 'look' })
const signed = (signature?: string): StreamPart => ({
  type: 'reasoning-delta',
  id: 'r',
  delta: 'so ',
  ...(signature === undefined ? {} : { providerMetadata: { google: { signature } } }),
})

/** Returns the parts of a stream that the SDK receives, and those that the tap received. */
async function through(parts: StreamPart[], fault?: Error) {
  const seen: StreamPart[] = []
  const left = [...parts]
  const stream = new ReadableStream<StreamPart>({
    pull(controller) {
      const part = left.shift()
      if (part !== undefined) controller.enqueue(part)
      else if (fault !== undefined) controller.error(fault)
      else controller.close()
    },
  })
  const model = tapModel(new MockLanguageModelV4({ doStream: async () => ({ stream }) }), (part) => seen.push(part))
  if (typeof model === 'string') throw new Error('a model')
  const given = (await model.doStream({ prompt: [] })).stream as ReadableStream<StreamPart>
  const passed: StreamPart[] = []
  let error: unknown = null
  try {
    for await (const part of given) passed.push(part)
  } catch (thrown) {
    error = thrown
  }
  expect(seen).toEqual(parts)
  return { passed, error }
}

describe('a model with a tapped stream', () => {
  test('passes on the first delta at once, and then merges the deltas of one part', async () => {
    const start: StreamPart = { type: 'text-start', id: 't' }
    const end: StreamPart = { type: 'text-end', id: 't' }
    const { passed } = await through([start, text('a'), text('b'), text('c'), end, FINISH])
    expect(passed).toEqual([start, text('a'), text('bc'), end, FINISH])
  })

  test('does not merge deltas of different parts, and keeps their order', async () => {
    const parts = [
      text('x'),
      began('1'),
      input('{', '1'),
      input('}', '1'),
      began('2'),
      input('[', '2'),
      input(']', '2'),
    ]
    const { passed } = await through([...parts, FINISH])
    expect(passed).toEqual([text('x'), began('1'), input('{}', '1'), began('2'), input('[]', '2'), FINISH])
    const mixed = await through([text('x'), input('a', '1'), input('b', '2'), input('c', '1'), input('d', '1')])
    expect(mixed.passed).toEqual([text('x'), input('a', '1'), input('b', '2'), input('cd', '1')])
  })

  test('keeps the last provider metadata of the merged deltas', async () => {
    const { passed } = await through([text('x'), signed('early'), signed('late'), signed()])
    expect(passed).toEqual([text('x'), { ...signed('late'), delta: 'so so so ' }])
  })

  test('passes on all parts before a failure, and then the failure', async () => {
    const fault = new Error('gone')
    const { passed, error } = await through([text('a'), text('b'), text('c')], fault)
    expect(passed).toEqual([text('a'), text('bc')])
    expect(error).toBe(fault)
  })

  test('gives the SDK the same result, with the time of the first chunk', async () => {
    const doStream = async () => ({
      stream: new ReadableStream<StreamPart>({
        start(controller) {
          for (const part of [{ type: 'text-start', id: 't' } as const, text('a'), text('b'), text('c')])
            controller.enqueue(part)
          controller.enqueue({ type: 'text-end', id: 't' })
          controller.enqueue(FINISH)
          controller.close()
        },
      }),
    })
    let ended: { text: unknown; ms: unknown } | null = null
    const result = streamText({
      model: tapModel(new MockLanguageModelV4({ doStream }), () => {}),
      prompt: 'Hello',
      onLanguageModelCallEnd: ({ content, performance }) => {
        ended = { text: content, ms: performance.timeToFirstOutputMs }
      },
    })
    await result.consumeStream()
    expect(ended).toEqual({ text: [{ type: 'text', text: 'abc' }], ms: expect.any(Number) })
  })
})
