import { describe, expect, test } from 'vitest'
import {
  modelToTest,
  type Provider,
  remedyOf,
  sortedProviders,
  usesOf,
  warningAbout,
} from '../../web/operate/providers.ts'

const provider = (name: string, given: Partial<Provider> = {}): Provider => ({
  name,
  api: 'openai-chat',
  baseUrl: null,
  hasKey: true,
  ready: true,
  notReadyReason: null,
  fromEnvironment: false,
  models: [],
  ...given,
})
const agent = (name: string, model: string, fallbackModels: string[] = []) => ({
  id: `agt_${name}`,
  name,
  model,
  internals: { fallbackModels },
})
const namesOf = (providers: readonly Provider[]) => providers.map(({ name }) => name)

describe('the page of model providers', () => {
  test('lists providers that can be called first, demo as the last of them, and none that is not set up', () => {
    const { ready, failing } = sortedProviders([
      provider('demo', { hasKey: false }),
      provider('mine'),
      provider('broken', { ready: false }),
      provider('openai', { hasKey: false, ready: false }),
      provider('ollama', { hasKey: false, baseUrl: 'http://localhost:11434/v1' }),
    ])
    expect(namesOf(ready)).toEqual(['mine', 'ollama', 'demo'])
    expect(namesOf(failing)).toEqual(['broken'])
  })

  test.each([
    [
      'ollama',
      'Nothing answers at http://localhost:11434/v1 (ECONNREFUSED).',
      'Start Ollama on the machine of the server',
    ],
    ['openai', 'The server found no address for api.openai.com (ENOTFOUND): check …', 'Check that it is reachable'],
    ['openai', 'Incorrect API key provided: sk-…', 'did not accept the key'],
    ['openai', 'The model is overloaded.', 'Correct the key or the address'],
  ])('says what to do about %s: “%s”', (name, reason, words) => {
    expect(remedyOf({ name, fromEnvironment: false }, reason)).toContain(words)
    expect(remedyOf({ name, fromEnvironment: true }, reason)).toContain('The environment of the server')
  })

  test.each([
    ['', null],
    ['demo', null],
    ['mine:large:8b', null],
    ['broken:tiny', 'broken is not ready: runs with this model fail.'],
    ['openai:gpt-5', 'No provider openai is set up: runs with this model fail.'],
    [' nobody:tiny', 'No provider nobody is set up: runs with this model fail.'],
  ])('warns about the model “%s” if its provider cannot be called', (model, warning) => {
    const providers = [
      provider('mine'),
      provider('broken', { ready: false }),
      provider('openai', { hasKey: false, ready: false }),
    ]
    expect(warningAbout(model, providers)).toBe(warning)
  })

  test('groups the agents of a provider by model, most used first, with fallbacks and the default', () => {
    const agents = [
      agent('Iris', 'mine:tiny'),
      agent('Tom', 'mine:large:8b', ['mine:tiny', 'demo']),
      agent('Una', 'mine.too:tiny', ['mine.too:tiny']),
      agent('Demo', 'demo'),
    ]
    const named = (name: string, isFallback = false) => ({ id: `agt_${name}`, name, isFallback })
    expect(usesOf('mine', agents, 'mine:new')).toEqual([
      { model: 'tiny', isDefault: false, agents: [named('Iris'), named('Tom', true)] },
      { model: 'large:8b', isDefault: false, agents: [named('Tom')] },
      { model: 'new', isDefault: true, agents: [] },
    ])
    expect(usesOf('mine.too', agents, 'mine:new')).toEqual([
      { model: 'tiny', isDefault: false, agents: [named('Una')] },
    ])
    expect(usesOf('demo', agents, 'demo')).toEqual([
      { model: 'demo', isDefault: true, agents: [named('Tom', true), named('Demo')] },
    ])
  })

  test('tests the default model, else the most used one, else the only one', () => {
    const uses = usesOf('mine', [agent('Iris', 'mine:tiny')], 'mine:new')
    expect(modelToTest(provider('mine'), uses)).toBe('new')
    expect(modelToTest(provider('mine'), usesOf('mine', [agent('Iris', 'mine:tiny')], null))).toBe('tiny')
    expect(modelToTest(provider('mine', { models: ['only'] }), [])).toBe('only')
    expect(modelToTest(provider('mine', { models: ['one', 'two'] }), [])).toBeNull()
  })
})
