import { createOpenAI } from '@ai-sdk/openai'
import { isStepCount, jsonSchema, type ModelMessage, streamText, type ToolSet, tool } from 'ai'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { createDeferred } from '../../src/lib/async.ts'
import { startModelServer } from './model-server.ts'
import { forAgent, inTurn, steps, when } from './model-server-script.ts'

const server = await startModelServer()
const openai = createOpenAI({ baseURL: server.baseUrl, apiKey: 'sk-test' })

afterEach(() => server.reset())
afterAll(() => server.close())

const sendMessage = tool({
  description: 'Posts a message.',
  inputSchema: jsonSchema<{ text: string }>({ type: 'object', properties: { text: { type: 'string' } } }),
  execute: ({ text }) => ({ success: true, length: text.length }),
})

describe.each(['chat', 'responses'] as const)('a generation by /v1/%s', (endpoint) => {
  const model = endpoint === 'chat' ? openai.chat('gpt-5-mini') : openai.responses('gpt-5-mini')

  function run(options: { tools?: ToolSet; messages?: ModelMessage[]; signal?: AbortSignal; maxSteps?: number } = {}) {
    return streamText({
      model,
      instructions: 'You are Ada, an agent.',
      messages: options.messages ?? [{ role: 'user', content: 'Hello' }],
      tools: options.tools ?? { send_message: sendMessage },
      stopWhen: isStepCount(options.maxSteps ?? 5),
      maxRetries: 0,
      abortSignal: options.signal,
      onError: () => {},
      providerOptions: { openai: { store: false } },
    })
  }

  async function partsOf(result: ReturnType<typeof run>) {
    const parts = []
    for await (const part of result.fullStream) parts.push(part)
    return parts
  }

  test('streams text in the pieces of the script, with its usage', async () => {
    server.script(() => [
      { text: 'One two.', chunks: ['One ', 'two.'] },
      { usage: { inputTokens: 12, outputTokens: 3 } },
    ])
    const result = run()
    const parts = await partsOf(result)
    expect(parts.flatMap((part) => (part.type === 'text-delta' ? [part.text] : []))).toEqual(['One ', 'two.'])
    expect(await result.totalUsage).toMatchObject({ inputTokens: 12, outputTokens: 3, totalTokens: 15 })
    expect(await result.finishReason).toBe('stop')
    expect(server.requests[0]).toMatchObject({
      n: 1,
      endpoint,
      model: 'gpt-5-mini',
      instructions: 'You are Ada, an agent.',
      toolNames: ['send_message'],
      step: 0,
    })
    expect(server.requests[0]?.messages[1]).toMatchObject({ role: 'user', text: 'Hello' })
  })

  test('sends no usage if the script has none', async () => {
    server.script(() => [{ text: 'Hi' }, { usage: null }])
    const result = run()
    await partsOf(result)
    expect((await result.totalUsage).outputTokens).toBeUndefined()
  })

  test('runs a tool loop of several calls in one step, and accepts its history', async () => {
    server.script(
      steps(
        [
          { reasoning: 'Two greetings.' },
          { toolCall: 'send_message', input: { text: 'Hello, Grace' }, chunks: 3 },
          { toolCall: 'send_message', input: { text: 'And you?' }, id: 'call_second' },
        ],
        [{ text: 'Greeted.' }],
      ),
    )
    const result = run()
    const parts = await partsOf(result)
    const input = parts.flatMap((part) =>
      part.type === 'tool-input-delta' && part.id !== 'call_second' ? [part.delta] : [],
    )
    expect(input.join('')).toBe('{"text":"Hello, Grace"}')
    expect(input.length).toBeGreaterThan(5)
    expect(await result.text).toBe('Greeted.')
    expect(server.refusals).toEqual([])
    expect(server.requests.map(({ step }) => step)).toEqual([0, 1])
    expect(server.requests[1]?.messages.slice(2)).toMatchObject([
      {
        role: 'assistant',
        toolCalls: [
          { name: 'send_message', input: { text: 'Hello, Grace' } },
          { id: 'call_second', input: { text: 'And you?' } },
        ],
      },
      { role: 'tool', text: '{"success":true,"length":12}' },
      { role: 'tool', text: '{"success":true,"length":8}', toolCallId: 'call_second' },
    ])
  })

  test('waits for the conditions of the script between two pieces', async () => {
    const seen = createDeferred()
    server.script(() => [
      { toolCall: 'send_message', chunks: ['{"text":"Hel', seen.promise, 'lo"}'] },
      { finish: 'stop' },
    ])
    let input = ''
    for await (const part of run({ maxSteps: 1 }).fullStream) {
      if (part.type !== 'tool-input-delta') continue
      input += part.delta
      if (input.endsWith('Hel')) seen.resolve()
    }
    expect(input).toBe('{"text":"Hello"}')
  })

  test('refuses a call without its result', async () => {
    const messages: ModelMessage[] = [
      { role: 'user', content: 'Hello' },
      {
        role: 'assistant',
        content: [{ type: 'tool-call', toolCallId: 'call_1', toolName: 'send_message', input: {} }],
      },
      {
        role: 'tool',
        content: [
          {
            type: 'tool-result',
            toolCallId: 'call_1',
            toolName: 'send_message',
            output: { type: 'text', value: 'ok' },
          },
        ],
      },
    ]
    server.script(() => [{ text: 'ok' }])
    const accepted = await partsOf(run({ messages }))
    expect(accepted.some(({ type }) => type === 'error')).toBe(false)
    // The SDK rejects such a conversation before it sends anything, so the test sends the request itself.
    const response = await fetch(`${server.baseUrl}/${endpoint === 'chat' ? 'chat/completions' : 'responses'}`, {
      method: 'POST',
      body: JSON.stringify(
        endpoint === 'chat'
          ? {
              stream: true,
              messages: [
                { role: 'user', content: '' },
                { role: 'assistant', tool_calls: [{ id: 'call_1', function: { name: 'a', arguments: '{}' } }] },
              ],
            }
          : { stream: true, input: [{ type: 'function_call', call_id: 'call_1', name: 'a', arguments: '{}' }] },
      ),
    })
    expect(response.status).toBe(400)
    expect(server.refusals[0]).toContain('call_1')
  })

  test('refuses a result without its call', async () => {
    const messages: ModelMessage[] = [
      { role: 'user', content: 'Hello' },
      {
        role: 'tool',
        content: [
          {
            type: 'tool-result',
            toolCallId: 'call_1',
            toolName: 'send_message',
            output: { type: 'text', value: 'ok' },
          },
        ],
      },
    ]
    const parts = await partsOf(run({ messages }))
    const error = parts.find((part) => part.type === 'error')?.error as { statusCode: number; message: string }
    expect(error.statusCode).toBe(400)
    expect(server.refusals).toEqual([error.message])
  })

  test('refuses a tool whose schema is not an object', async () => {
    const tools = { broken: tool({ inputSchema: jsonSchema({ type: 'string' }), execute: () => 'no' }) }
    const parts = await partsOf(run({ tools }))
    expect(parts.find((part) => part.type === 'error')?.error).toMatchObject({ statusCode: 400 })
    expect(server.refusals[0]).toContain("Invalid schema for function 'broken'")
  })

  test('responds with the HTTP error of the script', async () => {
    server.script(() => [{ error: 'The server is overloaded.', status: 503 }])
    const parts = await partsOf(run())
    expect(parts.find((part) => part.type === 'error')?.error).toMatchObject({
      statusCode: 503,
      message: 'The server is overloaded.',
    })
  })

  test('sends an error in the middle of the stream', async () => {
    server.script(() => [{ text: 'Well' }, { error: 'The model broke down.' }])
    const parts = await partsOf(run())
    expect(parts.some((part) => part.type === 'text-delta')).toBe(true)
    expect(parts.find((part) => part.type === 'error')?.error).toMatchObject({ message: 'The model broke down.' })
  })

  test('closes the connection in the middle of the stream, and the SDK throws', async () => {
    server.script(() => [{ text: 'Well' }, { disconnect: true }])
    await expect(partsOf(run())).rejects.toThrow('Failed to process successful response')
    expect(await server.requests[0]?.ended).toBe('disconnected')
  })

  test('ends the stream without a finish part, so that the SDK reports an interruption and executes no tool', async () => {
    server.script(() => [{ toolCall: 'send_message', input: { text: 'Hello' } }, { finish: 'none' }])
    const result = run()
    const parts = await partsOf(result)
    expect(parts.some(({ type }) => type === 'tool-call')).toBe(true)
    expect(parts.some(({ type }) => type === 'tool-result')).toBe(false)
    expect(await result.finishReason).toBe('interrupted')
    expect(server.requests).toHaveLength(1)
  })

  test('hangs until the client gives up', async () => {
    server.script(() => [{ text: 'Well' }, { hang: true }])
    const stop = new AbortController()
    for await (const part of run({ signal: stop.signal }).fullStream) if (part.type === 'text-delta') stop.abort()
    expect(await server.requests[0]?.ended).toBe('aborted')
  })
})

describe('the scripts of the model server', () => {
  async function ask(instructions: string): Promise<string> {
    const result = streamText({
      model: openai.chat('m'),
      instructions,
      prompt: 'Hello',
      maxRetries: 0,
      onError: () => {},
    })
    await result.consumeStream()
    return await result.text
  }

  test('select by the agent named in the instructions, by a condition, and in turn', async () => {
    server.script(when(({ messages }) => messages.length > 1, inTurn([{ text: 'first' }], [{ text: 'second' }])))
    server.script(forAgent('Ada', () => [{ text: 'Ada here' }]))
    expect(await ask('You are Ada, an agent.')).toBe('Ada here')
    expect(await ask('You are Bob, an agent.')).toBe('first')
    expect(await ask('You are Bob, an agent.')).toBe('second')
  })

  test('resolve a promise for a past or future request', async () => {
    server.script(() => [{ text: 'ok' }])
    const coming = server.request(({ instructions }) => instructions === 'later')
    await ask('now')
    expect((await server.request(({ n }) => n === 1)).instructions).toBe('now')
    await ask('later')
    expect((await coming).n).toBe(2)
  })

  test('fail a request without a script with a helpful error', async () => {
    await expect(ask('You are nobody.')).rejects.toThrow()
  })
})
