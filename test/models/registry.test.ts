import { isStepCount, jsonSchema, type ModelMessage, streamText, tool } from 'ai'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { readModelProviders } from '../../src/config/model-providers.ts'
import { createModelRegistry } from '../../src/models/registry.ts'
import { startModelServer } from '../support/model-server.ts'
import { steps } from '../support/model-server-script.ts'

const server = await startModelServer()
afterEach(() => server.reset())
afterAll(() => server.close())

const registryOf = (environment: Record<string, string>) =>
  createModelRegistry({ providers: readModelProviders(environment).providers })

describe('the registry of models', () => {
  const bare = registryOf({})
  const keyed = registryOf({ OPENAI_API_KEY: 'sk-test' })

  test('has the demo model without any setting', async () => {
    expect(bare.check('demo')).toBeNull()
    expect(await bare.resolve('demo')).toMatchObject({ modelId: 'demo' })
  })

  test.each(['openai:gpt-5-mini', 'openai.chat:llama3.1:8b', 'openai.chat:org/model'])(
    'has %s with a key',
    async (name) => {
      expect(keyed.check(name)).toBeNull()
      expect(await keyed.resolve(name)).toBe(await keyed.resolve(name))
    },
  )

  test('explains what openai needs without a key and a base URL', async () => {
    expect(bare.check('openai:gpt-5-mini')).toBe(
      'The model "openai:gpt-5-mini" cannot be used: its provider needs OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server; "demo" needs neither.',
    )
    await expect(bare.resolve('openai.chat:x')).rejects.toThrow('needs OPENAI_API_KEY')
  })

  test.each([
    ['anthropic:claude', 'set ANTHROPIC_API_KEY'],
    ['google:gemini-2.5-flash', 'set GEMINI_API_KEY or GOOGLE_GENERATIVE_AI_API_KEY'],
    ['azure:my-deployment', 'set AZURE_API_KEY and AZURE_RESOURCE_NAME'],
    ['ollama:qwen3', `set PARLEY_PROVIDERS='{ "ollama": {} }'`],
  ])('says what %s needs: %s', async (name, remedy) => {
    const [provider] = name.split(':')
    expect(keyed.check(name)).toBe(
      `The model "${name}" needs the provider "${provider}": ${remedy} and restart, or add the provider in the console under Models.`,
    )
    await expect(keyed.resolve(name)).rejects.toThrow(remedy)
  })

  test.each([
    ['claude-haiku-4-5', 'anthropic'],
    ['gpt-5-mini', 'openai'],
    ['o3', 'openai'],
    ['gemini-2.5-flash', 'google'],
  ])('guesses the provider of %s, and lists only configured providers', async (name, provider) => {
    expect(bare.check(name)).toBe(`The model "${name}" is unknown. Did you mean "${provider}:${name}"? Use "demo".`)
  })

  test.each(['claude:opus', 'openai:', 'openai: x', 'demo:x', '', 'openai.responses:x'])(
    'lists the known models if %j is unknown',
    async (name) => {
      expect(keyed.check(name)).toBe(
        `The model ${JSON.stringify(name)} is unknown. Use "openai:<model>", "openai.chat:<model>" or "demo".`,
      )
      await expect(keyed.resolve(name)).rejects.toThrow('is unknown')
    },
  )

  test('accepts further models in tests', async () => {
    const extra = await bare.resolve('demo')
    const registry = createModelRegistry({ extra: { 'test:one': extra } })
    expect(registry.check('test:one')).toBeNull()
    expect(await registry.resolve('test:one')).toBe(extra)
  })
})

describe.each([
  ['openai:gpt-5-mini', 'responses'],
  ['openai.chat:gpt-5-mini', 'chat'],
])('the model %s', (name, endpoint) => {
  const registry = registryOf({ OPENAI_BASE_URL: server.baseUrl })

  const look = tool({ inputSchema: jsonSchema({ type: 'object', properties: {} }), execute: () => ({ seen: true }) })

  async function run(messages: ModelMessage[]) {
    const result = streamText({
      model: await registry.resolve(name),
      instructions: 'You are Ada, an agent.',
      messages,
      tools: { look },
      stopWhen: isStepCount(5),
      maxRetries: 0,
      onError: () => {},
    })
    await result.consumeStream()
    return await result.steps
  }

  test(`uses ${endpoint}, without a key if a base URL is set`, async () => {
    server.script(() => [{ text: 'Hi' }])
    await run([{ role: 'user', content: 'Hello' }])
    expect(server.requests[0]).toMatchObject({ endpoint, model: 'gpt-5-mini' })
    expect(server.requests[0]?.headers.authorization).toBe('Bearer none')
  })

  test('continues from a history that was stored and loaded between two steps', async () => {
    server.script(
      steps(
        [{ reasoning: 'I shall look.' }, { toolCall: 'look' }, { toolCall: 'look' }],
        [{ reasoning: 'Once more.' }, { text: 'Again.' }, { toolCall: 'look' }],
        [{ reasoning: 'Enough.' }, { text: 'Seen.' }],
      ),
    )
    const first = await run([{ role: 'user', content: 'Look' }])
    const history: ModelMessage[] = [
      { role: 'user', content: 'Look' },
      ...first.flatMap((step) => step.response.messages),
    ]
    const stored = JSON.parse(JSON.stringify(history)) as ModelMessage[]
    await run([...stored, { role: 'user', content: 'And now?' }])
    expect(server.refusals).toEqual([])
    expect(server.requests.length).toBeGreaterThan(3)
    if (endpoint === 'responses') {
      const { body } = server.requests.at(-1) ?? {}
      expect(body).toMatchObject({ store: false, include: ['reasoning.encrypted_content'] })
      const types = body.input.map((item: { type?: string; role?: string }) => item.type ?? item.role)
      expect(types).not.toContain('item_reference')
      expect(types.slice(0, 6)).toEqual([
        'developer',
        'user',
        'reasoning',
        'function_call',
        'function_call',
        'function_call_output',
      ])
    }
  })
})
