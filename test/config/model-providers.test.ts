import { rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { readModelProviders } from '../../src/config/model-providers.ts'
import { type ConfigError, readConfig } from '../../src/config.ts'
import { makeScratchFolder } from '../support/scratch.ts'

const COMPATIBLE = '@ai-sdk/openai-compatible'
const SECRET = 'sk-a-secret-of-the-operator'

function read(providers: unknown, environment: Record<string, string> = {}) {
  const text = typeof providers === 'string' ? providers : JSON.stringify(providers)
  return readModelProviders({ ...environment, PARLEY_PROVIDERS: text })
}

const named = (providers: unknown, environment?: Record<string, string>) =>
  read(providers, environment).providers.filter(({ name }) => !name.startsWith('openai'))

describe('the providers of models', () => {
  test('without the setting, OpenAI is the provider', () => {
    expect(readModelProviders({ OPENAI_API_KEY: SECRET, OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' })).toEqual({
      faults: [],
      warnings: [],
      providers: [
        expect.objectContaining({
          name: 'openai',
          api: 'openai',
          package: '@ai-sdk/openai',
          apiKey: SECRET,
          lacks: null,
        }),
        expect.objectContaining({ name: 'openai.chat', api: 'openai-chat', package: '@ai-sdk/openai', lacks: null }),
      ],
    })
  })

  test.each([
    ['ollama', 'http://localhost:11434/v1'],
    ['lmstudio', 'http://localhost:1234/v1'],
    ['vllm', 'http://localhost:8000/v1'],
  ])('%s needs only its name', (name, baseUrl) => {
    const [provider] = named({ [name]: {} })
    expect(provider).toMatchObject({
      name,
      api: 'openai-chat',
      package: '@ai-sdk/openai-compatible',
      baseUrl,
      lacks: null,
    })
    expect(named({ [name]: { baseUrl: 'http://gpu:9/v1' } })[0]).toMatchObject({
      baseUrl: 'http://gpu:9/v1',
      lacks: null,
    })
  })

  test.each([
    ['ANTHROPIC_API_KEY', 'anthropic', '@ai-sdk/anthropic', null, 'claude-haiku-4-5'],
    ['GEMINI_API_KEY', 'google', '@ai-sdk/google', null, 'gemini-2.5-flash'],
    ['GOOGLE_GENERATIVE_AI_API_KEY', 'google', '@ai-sdk/google', null, 'gemini-2.5-flash'],
    ['OPENROUTER_API_KEY', 'openrouter', COMPATIBLE, 'https://openrouter.ai/api/v1', 'openai/gpt-5-mini'],
    ['GROQ_API_KEY', 'groq', COMPATIBLE, 'https://api.groq.com/openai/v1', 'openai/gpt-oss-20b'],
    ['MISTRAL_API_KEY', 'mistral', COMPATIBLE, 'https://api.mistral.ai/v1', 'mistral-small-latest'],
    ['DEEPSEEK_API_KEY', 'deepseek', COMPATIBLE, 'https://api.deepseek.com/v1', 'deepseek-chat'],
    ['XAI_API_KEY', 'xai', COMPATIBLE, 'https://api.x.ai/v1', 'grok-4-fast-non-reasoning'],
  ])('%s alone enables %s, with a small model as the default', (variable, name, needed, baseUrl, model) => {
    const config = readConfig({ [variable]: SECRET })
    const [provider] = config.modelProviders.filter((one) => one.apiKey !== null)
    expect(provider).toMatchObject({ name, package: needed, baseUrl, apiKey: SECRET, lacks: null, isLocal: false })
    expect(config.defaultModel).toBe(`${name}:${model}`)
    expect(config.warnings).toEqual([])
  })

  test('Azure needs a key and the name of its resource, and has no default model', () => {
    const azure = readConfig({ AZURE_API_KEY: SECRET, AZURE_RESOURCE_NAME: 'my-team' })
    const baseUrl = 'https://my-team.openai.azure.com/openai/v1'
    const provider = { name: 'azure', api: 'openai', baseUrl, apiKey: SECRET, headers: { 'api-key': SECRET } }
    expect(azure.modelProviders.at(-1)).toMatchObject(provider)
    expect(azure.defaultModel).toBe('demo')
    expect(readConfig({ AZURE_API_KEY: SECRET }).warnings).toEqual([expect.stringContaining('AZURE_RESOURCE_NAME')])
    const elsewhere = { AZURE_API_KEY: SECRET, AZURE_RESOURCE_NAME: 'evil.example/x' }
    expect(() => readConfig(elsewhere)).toThrow(/AZURE_RESOURCE_NAME: must be the name/)
  })

  test('an invalid key in a usual variable stops the start with the name of the variable, not the value', () => {
    const bad = { GROQ_API_KEY: 'gsk\nline', AZURE_API_KEY: 'ü', AZURE_RESOURCE_NAME: 'team' }
    expect(readModelProviders(bad).faults).toEqual([
      'GROQ_API_KEY: must be printable ASCII',
      'AZURE_API_KEY: must be printable ASCII',
    ])
  })

  test('an entry of the setting comes before the usual variable', () => {
    const { providers } = read(
      { groq: { baseUrl: 'https://proxy.example/v1', apiKey: 'own' } },
      { GROQ_API_KEY: SECRET },
    )
    expect(providers.filter(({ name }) => name === 'groq')).toMatchObject([
      { baseUrl: 'https://proxy.example/v1', apiKey: 'own' },
    ])
  })

  test('the default model is one of the first provider with a key', () => {
    const keys = { ANTHROPIC_API_KEY: SECRET, GEMINI_API_KEY: SECRET }
    expect(readConfig(keys).defaultModel).toBe('anthropic:claude-haiku-4-5')
    expect(readConfig({ ...keys, OPENAI_API_KEY: SECRET }).defaultModel).toBe('openai:gpt-5-mini')
    const google = JSON.stringify({ google: {} })
    expect(readConfig({ ...keys, PARLEY_PROVIDERS: google }).defaultModel).toBe('google:gemini-2.5-flash')
    expect(readConfig({ ...keys, PARLEY_DEFAULT_MODEL: 'demo' }).defaultModel).toBe('demo')
    expect(readConfig({}).defaultModel).toBe('demo')
  })

  test.each([
    ['http://127.0.0.1:1/v1', true],
    ['http://[::1]:1/v1', true],
    ['http://192.168.1.5/v1', true],
    ['http://localhost/v1', true],
    ['http://gpu.local/v1', true],
    ['http://ollama:11434/v1', true],
    ['https://8.8.8.8/v1', false],
    ['https://models.example.com/v1', false],
  ])('the provider at %s is local: %s', (baseUrl, isLocal) => {
    expect(named({ mine: { api: 'openai-chat', baseUrl } })[0]).toMatchObject({ isLocal })
  })

  test('the preset OpenRouter takes its key from its own variable', () => {
    expect(named({ openrouter: {} }, { OPENROUTER_API_KEY: SECRET })[0]).toMatchObject({ apiKey: SECRET, lacks: null })
    const keyless = read({ openrouter: {} })
    expect(keyless.faults).toEqual([])
    expect(keyless.warnings).toEqual(['PARLEY_PROVIDERS: openrouter needs an apiKey, or OPENROUTER_API_KEY'])
  })

  test('a key or header may be the name of a variable, and the whole list may be in a file', async () => {
    const scratch = await makeScratchFolder('parley-')
    const file = path.join(scratch, 'providers.json')
    const claude = { api: 'anthropic', apiKey: 'env:CLAUDE_KEY', headers: { 'x-team': 'env:TEAM', 'x-plain': 'yes' } }
    await writeFile(file, JSON.stringify({ claude }))
    const environment = { CLAUDE_KEY: `${SECRET}\n`, TEAM: 'blue' }
    const expected = {
      name: 'claude',
      api: 'anthropic',
      baseUrl: null,
      apiKey: SECRET,
      headers: { 'x-team': 'blue', 'x-plain': 'yes' },
    }
    expect(named({ claude }, environment)).toEqual([expect.objectContaining(expected)])
    expect(named(`file:${file}`, environment)).toEqual([expect.objectContaining(expected)])
    expect(named(`file://${file}`, environment)).toEqual([expect.objectContaining(expected)])
    await rm(scratch, { recursive: true })
  })

  test('a custom provider may have any name and settings', () => {
    const { providers } = read({ openai: { api: 'openai', apiKey: SECRET, baseUrl: 'http://proxy/v1' } })
    expect(providers.map(({ name, baseUrl }) => [name, baseUrl])).toEqual([
      ['openai', 'http://proxy/v1'],
      ['openai.chat', null],
    ])
  })

  test.each<[string, unknown, RegExp]>([
    ['a text that is not JSON', `{ "x": ${SECRET}`, /^PARLEY_PROVIDERS: must be JSON$/],
    ['a list', [SECRET], /must be an object that maps names to providers$/],
    ['a missing file', 'file:/nowhere/at-all.json', /the file cannot be read \(ENOENT\)$/],
    ['a name with a colon', { 'a:b': { api: 'openai' } }, /"a:b" is not a valid provider name$/],
    ['the name of the built-in model', { demo: { api: 'openai' } }, /"demo" is not a valid provider name$/],
    ['a provider that is not an object', { x: SECRET }, /x: /],
    ['an unknown API', { x: { api: SECRET } }, /x\.api: must be one of openai, openai-chat, anthropic, google$/],
    ['a missing API', { x: {} }, /x\.api: must be one of/],
    ['an unknown field', { ollama: { key: SECRET } }, /ollama: Unrecognized key: "key"$/],
    ['a base URL that is not a URL', { ollama: { baseUrl: 'localhost' } }, /ollama\.baseUrl: must be a URL/],
    ['a base URL of another protocol', { ollama: { baseUrl: 'ftp://x/v1' } }, /ollama\.baseUrl: must be a URL/],
    ['a secret in the base URL', { ollama: { baseUrl: `http://me:${SECRET}@x/v1` } }, /ollama\.baseUrl: must be a URL/],
    ['a key in the query', { ollama: { baseUrl: `http://x/v1?key=${SECRET}` } }, /ollama\.baseUrl: must be a URL/],
    [
      'a variable that does not exist',
      { x: { api: 'google', apiKey: 'env:NOT_THERE' } },
      /x\.apiKey: the variable NOT_THERE is not set$/,
    ],
    [
      'a literal key in place of a variable name',
      { x: { api: 'google', apiKey: `env:${SECRET}` } },
      /x\.apiKey: env: must be followed by the name of an environment variable in capitals/,
    ],
    [
      'a key that cannot be sent in a header',
      { x: { api: 'google', apiKey: `${SECRET}\nand more` } },
      /x\.apiKey: must be printable ASCII$/,
    ],
    [
      'an invalid header',
      { ollama: { headers: { 'x y': SECRET } } },
      /ollama\.headers: "x y" is not a valid header name/,
    ],
    ['a header that is not text', { ollama: { headers: { x: 7 } } }, /ollama\.headers\.x: /],
  ])('%s is reported at the start, without a secret', (_, providers, fault) => {
    const { faults } = read(providers)
    expect(faults).toEqual([expect.stringMatching(fault)])
    expect(faults.join()).not.toContain(SECRET)
  })

  test('all errors are listed at once, with those of other settings', () => {
    const PARLEY_PROVIDERS = JSON.stringify({ a: { api: 'x' }, b: { api: 'google', apiKey: 'env:NOT_THERE' } })
    const start = () => readConfig({ PARLEY_PROVIDERS, PORT: 'x', OPENAI_BASE_URL: `http://me:${SECRET}@x` })
    expect(start).toThrow('Invalid settings')
    try {
      start()
    } catch (error) {
      const { faults } = error as ConfigError
      expect(faults.map((fault) => fault.split(':').slice(0, 2).join(':'))).toEqual([
        'OPENAI_BASE_URL: must be a URL that begins with http',
        'PARLEY_PROVIDERS: a.api',
        'PARLEY_PROVIDERS: b.apiKey',
        'PORT: must be a whole number',
      ])
    }
  })

  test('an error contains the name of a missing package', () => {
    const { faults } = readModelProviders(
      { PARLEY_PROVIDERS: JSON.stringify({ claude: { api: 'anthropic', apiKey: SECRET }, ollama: {} }) },
      (name) => name !== '@ai-sdk/anthropic',
    )
    expect(faults).toEqual(['PARLEY_PROVIDERS: claude needs the package @ai-sdk/anthropic, which is not installed'])
  })

  test('the default model may use any provider', () => {
    const PARLEY_PROVIDERS = '{ "ollama": {} }'
    expect(readConfig({ PARLEY_PROVIDERS, PARLEY_DEFAULT_MODEL: 'ollama:llama3.1:8b' }).defaultModel).toBe(
      'ollama:llama3.1:8b',
    )
  })
})
