import { isStepCount, jsonSchema, type ModelMessage, streamText, tool } from 'ai'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { readModelProviders } from '../../src/config/model-providers.ts'
import { ModelFailure } from '../../src/engine/model-failure.ts'
import { wishing } from '../../src/models/call-wishes.ts'
import { createModelRegistry } from '../../src/models/registry.ts'
import { startModelServer } from '../support/model-server.ts'
import { type ModelAction, steps } from '../support/model-server-script.ts'

const server = await startModelServer()
afterEach(() => {
  expect(server.refusals).toEqual([])
  server.reset()
})
afterAll(() => server.close())

const KEY = 'a-key-of-24-characters-xx'
const { baseUrl, googleUrl } = server
const { providers, faults } = readModelProviders({
  PARLEY_PROVIDERS: JSON.stringify({
    gpt: { api: 'openai', baseUrl, apiKey: KEY },
    local: { api: 'openai-chat', baseUrl, apiKey: KEY },
    claude: { api: 'anthropic', baseUrl, apiKey: KEY },
    gemini: { api: 'google', baseUrl: googleUrl, apiKey: KEY },
  }),
})
const registry = createModelRegistry({ providers })

test('providers by their settings', () => expect(faults).toEqual([]))

const look = tool({
  inputSchema: jsonSchema<{ at?: string }>({ type: 'object', properties: { at: { type: 'string' } } }),
  execute: ({ at }) => ({ seen: at }),
})

async function run(name: string, options: Partial<Parameters<typeof streamText>[0]> = {}) {
  const errors: unknown[] = []
  const onError = ({ error }: { error: unknown }) => void errors.push(error)
  const result = streamText({
    model: await registry.resolve(name),
    instructions: 'You are Ada, an agent.',
    messages: [{ role: 'user', content: 'Look' }],
    tools: { look },
    stopWhen: isStepCount(5),
    maxRetries: 0,
    providerOptions: wishing({ cacheKey: 'agt_1' }),
    onError,
    ...options,
  } as Parameters<typeof streamText>[0])
  await result.consumeStream({ onError: (error) => void errors.push(error) })
  const [first] = errors
  const failure = first === undefined ? null : new ModelFailure(first, { redact: registry.redact })
  return { result, failure }
}

describe.each([
  ['gpt:gpt-5-mini', 'responses'],
  ['local:qwen3', 'chat'],
  ['claude:claude-opus-4-1', 'anthropic'],
  ['gemini:gemini-3-pro', 'google'],
])('the model %s', (name, endpoint) => {
  test('is called under its own name with its key, and streams text with its usage', async () => {
    server.script(() => [
      { text: 'One two.', chunks: ['One ', 'two.'] },
      { usage: { inputTokens: 12, outputTokens: 3, cachedInputTokens: 8 } },
    ])
    const { result } = await run(name)
    expect(await result.text).toBe('One two.')
    expect(await result.finishReason).toBe('stop')
    expect(await result.usage).toMatchObject({
      inputTokens: 12,
      outputTokens: 3,
      inputTokenDetails: { cacheReadTokens: 8 },
    })
    expect(server.requests).toMatchObject([
      { endpoint, model: name.split(':')[1], instructions: 'You are Ada, an agent.', toolNames: ['look'] },
    ])
    expect(JSON.stringify(server.requests[0]?.headers)).toContain(KEY)
  })

  test('calls several tools at once, and continues from its reasoning after the history was stored and loaded', async () => {
    const generations: ModelAction[][] = [
      [
        { reasoning: 'I shall look twice.' },
        { toolCall: 'look', input: { at: 'a' } },
        { toolCall: 'look', input: { at: 'b' } },
      ],
      [{ reasoning: 'Once more.' }, { text: 'Again.' }, { toolCall: 'look', input: { at: 'c' } }],
      [{ text: 'Seen.' }],
    ]
    server.script(steps(...generations))
    const { result } = await run(name, { reasoning: 'medium' })
    expect(await result.text).toBe('Seen.')
    const made = await result.steps
    expect(made[0]?.reasoningText).toBe('I shall look twice.')
    expect(
      server.requests[1]?.messages.filter(({ role }) => role === 'tool').map(({ text }) => JSON.parse(text)),
    ).toEqual([{ seen: 'a' }, { seen: 'b' }])
    const history: ModelMessage[] = [
      { role: 'user', content: 'Look' },
      ...made.flatMap((step) => step.response.messages),
    ]
    const stored = JSON.parse(JSON.stringify(history)) as ModelMessage[]
    await run(name, { messages: [...stored, { role: 'user', content: 'And now?' }], reasoning: 'medium' })
    const resent = JSON.stringify(server.requests.at(-1)?.body)
    const proof = {
      responses: 'encrypted:rs_',
      chat: '"reasoning_content":"I shall look twice."',
      anthropic: 'signature:',
      google: 'signature:',
    }
    expect(resent).toContain(proof[endpoint as keyof typeof proof])
  })

  test.each<[number, string, string]>([
    [400, 'prompt', 'The prompt is too long.'],
    [401, 'provider', 'The key is unknown.'],
    [404, 'provider', 'There is no such model.'],
    [429, 'provider', 'Too many requests.'],
    [500, 'unclear', 'It broke.'],
    [503, 'unclear', 'Overloaded.'],
  ])('is assigned the right fault for a response with HTTP %i', async (status, blame, message) => {
    server.script(() => [{ error: message, status }])
    const { failure } = await run(name)
    expect(failure).toMatchObject({ message: `${message} (HTTP ${status})`, blame })
  })

  test.each<[string, ModelAction[], string]>([
    ['an error in the stream', [{ text: 'Well' }, { error: 'It broke down.' }], 'It broke down.'],
    ['a connection that is cut', [{ text: 'Well' }, { disconnect: true }], ''],
  ])('%s is a failure of the provider', async (_, script, message) => {
    server.script(() => script)
    const { failure } = await run(name)
    expect(failure?.message).toContain(message)
    expect(failure?.blame).toBe('unclear')
  })

  test('a stream that ends early is not accepted as an answer', async () => {
    server.script(() => [{ text: 'Well' }, { finish: 'none' }])
    const { result, failure } = await run(name)
    const finish = await result.finishReason
    expect(failure !== null || ['interrupted', 'error'].includes(finish)).toBe(true)
  })

  test.each<[string, object | string]>([
    ['HTML', '<html><body>Bad gateway</body></html>'],
    ['an error without a message', { error: {} }],
    ['a list', []],
    ['nothing', ''],
  ])('an error that is %s fails only the call', async (_, body) => {
    server.script(() => [{ error: 'x', status: 502, body }])
    expect((await run(name)).failure).toMatchObject({ blame: 'unclear' })
  })

  test('an API key in the error message of a provider is removed', async () => {
    server.script(() => [{ error: `Incorrect API key ${KEY}, also a-ke****xx`, status: 401 }])
    expect((await run(name)).failure?.message).toBe('Incorrect API key [removed], also [removed] (HTTP 401)')
  })
})
