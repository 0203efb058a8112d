import { rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { readModelProviders } from '../../src/config/model-providers.ts'
import { type ConfigError, readConfig } from '../../src/config.ts'
import { makeScratchFolder } from '../support/scratch.ts'

const SECRET = 'sk-a-secret-of-the-operator'

function read(providers: unknown, environment: Record<string, string> = {}) {
  const text = typeof providers === 'string' ? providers : JSON.stringify(providers)
  return readModelProviders({ ...environment, PARLEY_PROVIDERS: text })
}

const named = (providers: unknown, environment?: Record<string, string>) =>
  read(providers, environment).providers.filter(({ name }) => !name.startsWith('openai'))

describe('the providers of models', () => {
  test('without the setting there is OpenAI as ever', () => {
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
  ])('%s is known by its word', (name, baseUrl) => {
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

  test('OpenRouter is known by its word, and takes its key from the variable of its name', () => {
    expect(named({ openrouter: {} }, { OPENROUTER_API_KEY: SECRET })[0]).toMatchObject({ apiKey: SECRET, lacks: null })
    const keyless = read({ openrouter: {} })
    expect(keyless.faults).toEqual([])
    expect(keyless.warnings).toEqual(['PARLEY_PROVIDERS: openrouter needs an apiKey, or OPENROUTER_API_KEY'])
  })

  test('a key and a header may be a variable, and a file may hold it all', async () => {
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

  test('a name of our own may be set otherwise', () => {
    const { providers } = read({ openai: { api: 'openai', apiKey: SECRET, baseUrl: 'http://proxy/v1' } })
    expect(providers.map(({ name, baseUrl }) => [name, baseUrl])).toEqual([
      ['openai', 'http://proxy/v1'],
      ['openai.chat', null],
    ])
  })

  test.each<[string, unknown, RegExp]>([
    ['no JSON', `{ "x": ${SECRET}`, /^PARLEY_PROVIDERS: must be JSON$/],
    ['no object', [SECRET], /must be an object of providers by name$/],
    ['a file that is not there', 'file:/nowhere/at-all.json', /the file cannot be read \(ENOENT\)$/],
    ['a name with a colon', { 'a:b': { api: 'openai' } }, /"a:b" is not a valid provider name$/],
    ['the name of the built-in model', { demo: { api: 'openai' } }, /"demo" is not a valid provider name$/],
    ['a provider that is no object', { x: SECRET }, /x: /],
    ['an unknown API', { x: { api: SECRET } }, /x\.api: must be one of openai, openai-chat, anthropic, google$/],
    ['an API that is missing', { x: {} }, /x\.api: must be one of/],
    ['an unknown field', { ollama: { key: SECRET } }, /ollama: Unrecognized key: "key"$/],
    ['a base URL that is no URL', { ollama: { baseUrl: 'localhost' } }, /ollama\.baseUrl: must be a URL/],
    ['a base URL of another protocol', { ollama: { baseUrl: 'ftp://x/v1' } }, /ollama\.baseUrl: must be a URL/],
    ['a secret in the base URL', { ollama: { baseUrl: `http://me:${SECRET}@x/v1` } }, /ollama\.baseUrl: must be a URL/],
    ['a key in the query', { ollama: { baseUrl: `http://x/v1?key=${SECRET}` } }, /ollama\.baseUrl: must be a URL/],
    [
      'a variable that is not there',
      { x: { api: 'google', apiKey: 'env:NOT_THERE' } },
      /x\.apiKey: the variable NOT_THERE is not set$/,
    ],
    [
      'a key in the place of a variable',
      { x: { api: 'google', apiKey: `env:${SECRET}` } },
      /x\.apiKey: env: must be the name of an environment variable/,
    ],
    [
      'a key that no header can hold',
      { x: { api: 'google', apiKey: `${SECRET}\nand more` } },
      /x\.apiKey: must be printable ASCII$/,
    ],
    [
      'a header that is none',
      { ollama: { headers: { 'x y': SECRET } } },
      /ollama\.headers: "x y" is not a valid header name/,
    ],
    ['a header that is no text', { ollama: { headers: { x: 7 } } }, /ollama\.headers\.x: /],
  ])('%s is named at the start, without a secret', (_, providers, fault) => {
    const { faults } = read(providers)
    expect(faults).toEqual([expect.stringMatching(fault)])
    expect(faults.join()).not.toContain(SECRET)
  })

  test('every fault is named at once, beside those of other settings', () => {
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

  test('a package that is missing is named', () => {
    const { faults } = readModelProviders(
      { PARLEY_PROVIDERS: JSON.stringify({ claude: { api: 'anthropic', apiKey: SECRET }, ollama: {} }) },
      (name) => name !== '@ai-sdk/anthropic',
    )
    expect(faults).toEqual(['PARLEY_PROVIDERS: claude needs the package @ai-sdk/anthropic, which is not installed'])
  })

  test('a default model may be of any of them', () => {
    const PARLEY_PROVIDERS = '{ "ollama": {} }'
    expect(readConfig({ PARLEY_PROVIDERS, PARLEY_DEFAULT_MODEL: 'ollama:llama3.1:8b' }).defaultModel).toBe(
      'ollama:llama3.1:8b',
    )
  })
})
