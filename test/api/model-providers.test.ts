import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const KEY = 'a-key-that-nobody-may-see'

describe('models of any provider over GraphQL', () => {
  let parley: TestServer
  let admin: ParleyClient

  beforeAll(async () => {
    const providers = {
      claude: { api: 'anthropic', apiKey: KEY },
      mine: { api: 'openai-chat', baseUrl: 'http://127.0.0.1:1/v1', headers: { authorization: `Bearer ${KEY}` } },
      bare: { api: 'google' },
    }
    const settings = { PARLEY_PROVIDERS: JSON.stringify(providers) }
    parley = await startTestServer({ worker: false, settings })
    admin = await parley.clientOf(parley.admin)
  })
  afterAll(() => parley?.close())

  // biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
  async function mutate(name: 'createAgent' | 'updateAgent', input: object): Promise<any> {
    const type = `${name[0]?.toUpperCase()}${name.slice(1)}`
    const query = `mutation ($input: ${type}Input!) { ${name}(input: $input) {
      ... on ${type}Payload { agent { id model internals { fallbackModels modelSettings phases { model modelSettings } } } }
      ... on Error { __typename message ... on BadInputError { field } } } }`
    const { data, errors } = await admin.ask<Record<string, unknown>>(query, { input })
    expect(errors).toBeUndefined()
    return data?.[name]
  }
  const create = (input: object) =>
    mutate('createAgent', { name: 'Ada', instructions: '', model: 'claude:opus', ...input })

  test('admins see the providers, but never a key; others see no providers', async () => {
    const query = '{ modelProviders { name api baseUrl hasKey restsUntil } }'
    const { data } = await admin.ask(query)
    expect(data).toEqual({
      modelProviders: [
        { name: 'claude', api: 'anthropic', baseUrl: null, hasKey: true, restsUntil: null },
        { name: 'mine', api: 'openai-chat', baseUrl: 'http://127.0.0.1:1/v1', hasKey: false, restsUntil: null },
        { name: 'bare', api: 'google', baseUrl: null, hasKey: false, restsUntil: null },
        { name: 'openai', api: 'openai', baseUrl: parley.models.baseUrl, hasKey: true, restsUntil: null },
        { name: 'openai.chat', api: 'openai-chat', baseUrl: parley.models.baseUrl, hasKey: true, restsUntil: null },
        { name: 'demo', api: 'demo', baseUrl: null, hasKey: false, restsUntil: null },
      ],
    })
    expect(JSON.stringify(data)).not.toContain(KEY)
    const human = await parley.clientOf(await parley.human('Ada'))
    expect(await human.ask(query)).toMatchObject({ data: { modelProviders: null } })
  })

  test('an agent stores its settings, an update changes them, and null removes them', async () => {
    const modelSettings = {
      temperature: 0,
      topP: 0.5,
      reasoningEffort: 'low',
      maxOutputTokens: 100,
      serviceTier: 'flex',
    }
    const phases = [
      { fromStep: 0, model: 'mine:llama3.1:8b', modelSettings: { temperature: 1.5, topP: null } },
      { fromStep: 2 },
    ]
    const { agent } = await create({ fallbackModels: ['mine:org/model', 'demo'], modelSettings, phases })
    expect(agent.internals).toEqual({
      fallbackModels: ['mine:org/model', 'demo'],
      modelSettings,
      phases: [
        { model: 'mine:llama3.1:8b', modelSettings: { temperature: 1.5 } },
        { model: null, modelSettings: null },
      ],
    })
    const changed = await mutate('updateAgent', {
      id: agent.id,
      model: 'demo',
      fallbackModels: [],
      modelSettings: null,
    })
    expect(changed.agent).toMatchObject({ model: 'demo', internals: { fallbackModels: [], modelSettings: null } })
    const again = await mutate('updateAgent', { id: agent.id, fallbackModels: ['claude:opus'] })
    expect(again.agent).toMatchObject({ model: 'demo', internals: { fallbackModels: ['claude:opus'] } })
  })

  test.each<[object, string, RegExp]>([
    [{ model: 'nobody:x' }, 'model', /is unknown. Use "claude:<model>", "mine:<model>",/],
    [{ model: 'bare:gemini' }, 'model', /needs an apiKey/],
    [{ fallbackModels: ['nobody:x'] }, 'fallbackModels.0', /is unknown/],
    [{ fallbackModels: ['demo', 'claude:opus'] }, 'fallbackModels.1', /must differ from the model/],
    [{ fallbackModels: ['demo', 'demo'] }, 'fallbackModels.1', /Duplicate fallback model/],
    [{ fallbackModels: Array.from({ length: 11 }, (_, n) => `mine:${n}`) }, 'fallbackModels', /at most 10/],
    [{ modelSettings: [1] }, 'modelSettings', /must be an object/],
    [{ modelSettings: 'low' }, 'modelSettings', /must be an object/],
    [
      { modelSettings: { apiKey: 'x' } },
      'modelSettings.apiKey',
      /Unknown model setting. Known settings: temperature, topP/,
    ],
    [{ modelSettings: { temperature: 2.1 } }, 'modelSettings.temperature', /between 0 and 2/],
    [{ modelSettings: { temperature: '1' } }, 'modelSettings.temperature', /between 0 and 2/],
    [{ modelSettings: { topP: -0.1 } }, 'modelSettings.topP', /between 0 and 1/],
    [{ modelSettings: { maxOutputTokens: 1.5 } }, 'modelSettings.maxOutputTokens', /a whole number/],
    [{ modelSettings: { maxOutputTokens: 0 } }, 'modelSettings.maxOutputTokens', /between 1 and/],
    [{ modelSettings: { reasoningEffort: 'huge' } }, 'modelSettings.reasoningEffort', /one of none, minimal, low/],
    [{ modelSettings: { serviceTier: 7 } }, 'modelSettings.serviceTier', /one of auto/],
    [{ phases: [{ fromStep: 0, modelSettings: { topP: 2 } }] }, 'phases.0.modelSettings.topP', /between 0 and 1/],
  ])('%j is refused with the name of the invalid field', async (input, field, message) => {
    const answer = { __typename: 'BadInputError', field: `input.${field}`, message: expect.stringMatching(message) }
    expect(await create(input)).toEqual(answer)
    const { agent } = await create({})
    expect(await mutate('updateAgent', { id: agent.id, ...input })).toEqual(answer)
  })

  test('a fallback can become the main model only if the same update changes the fallbacks', async () => {
    const { agent } = await create({ fallbackModels: ['demo'] })
    const alone = await mutate('updateAgent', { id: agent.id, model: 'demo' })
    expect(alone).toMatchObject({ __typename: 'BadInputError', field: 'input.model' })
    const both = await mutate('updateAgent', { id: agent.id, model: 'demo', fallbackModels: ['claude:opus'] })
    expect(both.agent).toMatchObject({ model: 'demo', internals: { fallbackModels: ['claude:opus'] } })
  })
})
