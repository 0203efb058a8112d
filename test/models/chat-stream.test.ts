import fc from 'fast-check'
import { expect, test } from 'vitest'
import { withCorrectedEvents } from '../../src/models/chat-stream.ts'

/** Returns the corrected body of a stream that arrives in these pieces. */
async function corrected(pieces: Uint8Array[], contentType = 'text/event-stream'): Promise<string> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece)
      controller.close()
    },
  })
  return withCorrectedEvents(new Response(body, { headers: { 'content-type': contentType } })).text()
}

const bytes = (text: string) => new TextEncoder().encode(text)
const call = (args: unknown) => ({
  choices: [{ delta: { tool_calls: [{ index: 0, function: { arguments: args } }] } }],
})
const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`

test('arguments that are not a string become their JSON text', async () => {
  const stream = event(call({ text: 'a "quoted" ü' })) + event(call(7)) + event(call('{"x":1}'))
  const expected = event(call(JSON.stringify({ text: 'a "quoted" ü' }))) + event(call('7')) + event(call('{"x":1}'))
  expect(await corrected([bytes(stream)])).toBe(expected)
})

test('text about arguments is unchanged, and so is a line that is not JSON', async () => {
  const stream = `${event({ choices: [{ delta: { content: 'set "arguments": {"a": 1}' } }] })}: "arguments": {\n\ndata: {"arguments": {\n\n`
  expect(await corrected([bytes(stream)])).toBe(stream)
})

test('[DONE] after output without a finish reason finishes the answer', async () => {
  const output = event({ choices: [{ delta: { content: 'Hi' }, finish_reason: null }] })
  expect(await corrected([bytes(`${output}data: [DONE]\n\n`)])).toContain('"finish_reason":"stop"')
  expect(await corrected([bytes(`${event(call('{}'))}data: [DONE]\n\n`)])).toContain('"finish_reason":"tool_calls"')
})

test.each([
  'data: [DONE]\n\n',
  'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
])('nothing is added to a stream without output, or with a finish reason: %s', async (stream) => {
  expect(await corrected([bytes(stream)])).toBe(stream)
})

test('another document passes unchanged', async () => {
  const json = JSON.stringify(call({ a: 1 }))
  expect(await corrected([bytes(json)], 'application/json')).toBe(json)
})

test('the result does not depend on how the bytes are split', async () => {
  const stream = bytes(event(call({ text: '€ 𝄞' })) + event({ choices: [{ delta: { content: '𝄞' } }] }))
  const whole = await corrected([stream])
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(stream.length)), async (cuts) => {
      const edges = [0, ...cuts.toSorted((one, other) => one - other), stream.length]
      const pieces = edges.slice(1).map((edge, index) => stream.slice(edges[index], edge))
      expect(await corrected(pieces)).toBe(whole)
    }),
    { numRuns: 50 },
  )
})
