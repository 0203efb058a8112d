import { wrapLanguageModel } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import { describe, expect, test } from 'vitest'
import type { LanguageModelV4, StreamPart } from '../../src/models/language-model.ts'
import { textCalls } from '../../src/models/text-calls.ts'

const CALL = '<tool_call>\n{"name":"say","arguments":{"text":"Hi"}}\n</tool_call>'
const USAGE = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }

/**
 * Returns the text, calls and finish reason that the SDK reads from a model's text that arrives in these pieces. The model has
 * the tool `say`.
 */
async function read(...pieces: string[]) {
  const finish = {
    type: 'finish',
    finishReason: { unified: 'stop', raw: 'stop' },
    usage: USAGE,
  } as unknown as StreamPart
  const parts: StreamPart[] = [
    { type: 'text-start', id: 't' },
    ...pieces.map((delta): StreamPart => ({ type: 'text-delta', id: 't', delta })),
    { type: 'text-end', id: 't' },
    finish,
  ]
  const stream = new ReadableStream<StreamPart>({
    start(controller) {
      for (const part of parts) controller.enqueue(part)
      controller.close()
    },
  })
  const model = wrapLanguageModel({
    model: new MockLanguageModelV4({ doStream: async () => ({ stream }) }) as LanguageModelV4,
    middleware: textCalls,
  }) as LanguageModelV4
  const tools = [{ type: 'function' as const, name: 'say', inputSchema: { type: 'object' as const } }]
  const { stream: result } = await model.doStream({ prompt: [], tools })
  const got: StreamPart[] = []
  for await (const part of result) got.push(part)
  return {
    text: got.map((part) => (part.type === 'text-delta' ? part.delta : '')).join(''),
    calls: got.flatMap((part) => (part.type === 'tool-call' ? [[part.toolName, part.input]] : [])),
    finish: got.map((part) => (part.type === 'finish' ? part.finishReason.unified : '')).join(''),
  }
}

describe('a tool call in the text of a model', () => {
  test.each([
    ['alone', [CALL], '', 1],
    ['after and before text', [`I say:${CALL}.`], 'I say:.', 1],
    ['in single characters', [...`a <b> ${CALL} <tool_c`], 'a <b>  <tool_c', 1],
    ['twice', [CALL, CALL], '', 2],
    ['without its end', [CALL.replace('</tool_call>', '')], '', 1],
    ['with parameters', ['<tool_call>{"name":"say","parameters":{"text":"Hi"}}</tool_call>'], '', 1],
    ['with arguments as text', ['<tool_call>{"name":"say","arguments":"{\\"text\\":\\"Hi\\"}"}</tool_call>'], '', 1],
  ])('%s is a call', async (_, pieces, text, calls) => {
    const expected = Array.from({ length: calls }, () => ['say', '{"text":"Hi"}'])
    expect(await read(...pieces)).toEqual({ text, calls: expected, finish: 'tool-calls' })
  })

  test.each([
    ['of another tool', '<tool_call>{"name":"shout","arguments":{}}</tool_call>'],
    ['that is not JSON', '<tool_call>say Hi</tool_call> then'],
    ['that is not finished', 'Use <tool_call>{"name'],
    ['without arguments of an object', '<tool_call>{"name":"say","arguments":7}</tool_call>'],
  ])('%s stays text', async (_, text) => {
    expect(await read(...text)).toEqual({ text, calls: [], finish: 'stop' })
  })
})
