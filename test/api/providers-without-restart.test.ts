import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { resealAll } from '../../src/operation/key-rotation.ts'
import { createSecretBox } from '../../src/platform/secret-box.ts'
import { errorForMembers } from '../../src/rules/run-end.ts'
import { type ModelServer, startModelServer } from '../support/model-server.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const KEY = 'sk-a-key-that-nobody-may-see'
const FROM_ENVIRONMENT = 'env-key-that-nobody-may-see'
const PROVIDER = 'name api baseUrl hasKey ready notReadyReason fromEnvironment models'

describe('model providers without a restart', () => {
  let parley: TestServer
  let admin: ParleyClient
  /** A provider with a key and a list of models. */
  let provider: ModelServer

  beforeAll(async () => {
    provider = await startModelServer({ apiKey: KEY })
    const providers = { fixed: { api: 'openai-chat', baseUrl: provider.baseUrl, apiKey: FROM_ENVIRONMENT } }
    const settings = { PARLEY_PROVIDERS: JSON.stringify(providers), OPENAI_API_KEY: '', OPENAI_BASE_URL: '' }
    parley = await startTestServer({ settings, isFresh: true })
    admin = await parley.clientOf(parley.admin)
  })
  afterAll(async () => {
    await parley?.close()
    await provider?.close()
  })
  beforeEach(async () => {
    provider.reset()
    provider.listed.models = ['tiny', 'large:8b']
    for (const { name, fromEnvironment } of await providersOf(admin))
      if (!fromEnvironment) await mutate('deleteModelProvider', { name })
  })

  // biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
  async function mutate(name: string, input: object, client = admin): Promise<any> {
    const type = `${name[0]?.toUpperCase()}${name.slice(1)}`
    const fields: Record<string, string> = {
      setModelProvider: `modelProvider { ${PROVIDER} }`,
      deleteModelProvider: 'deletedName',
      testModelProvider: 'ok text',
      createAgent: 'agent { id model }',
      updateAgent: 'agent { id model }',
    }
    const query = `mutation ($input: ${type}Input!) { ${name}(input: $input) {
      __typename ... on ${type}Payload { ${fields[name]} }
      ... on Error { message ... on BadInputError { field } } } }`
    const { data, errors } = await client.ask<Record<string, unknown>>(query, { input })
    expect(errors).toBeUndefined()
    expect(JSON.stringify(data)).not.toContain(KEY)
    return data?.[name]
  }

  // biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
  async function providersOf(client: ParleyClient): Promise<any[]> {
    const { data } = await client.ask<{ modelProviders: unknown[] }>(`{ modelProviders { ${PROVIDER} } }`)
    expect(JSON.stringify(data)).not.toContain(KEY)
    return data?.modelProviders ?? []
  }
  const providerOf = async (name: string, client = admin) =>
    (await providersOf(client)).find((one) => one.name === name)

  const mine = (input: object = {}) => ({
    name: 'mine',
    api: 'openai-chat',
    baseUrl: provider.baseUrl,
    apiKey: KEY,
    ...input,
  })
  const agentOf = async (model: string) => {
    const agent = await parley.agent('Ada', { model, plainText: 'SPOKEN_IF_SILENT' })
    const human = await parley.human('Bob')
    const space = await parley.space(human, [agent.id])
    return { agent, human, space }
  }

  test('an admin adds a key and tests it, and an agent uses the provider immediately', async () => {
    expect(await mutate('setModelProvider', mine())).toEqual({
      __typename: 'SetModelProviderPayload',
      modelProvider: {
        name: 'mine',
        api: 'openai-chat',
        baseUrl: provider.baseUrl,
        hasKey: true,
        fromEnvironment: false,
        ready: true,
        notReadyReason: null,
        models: ['large:8b', 'tiny'],
      },
    })
    provider.script(({ toolNames }) => [{ text: toolNames.length === 0 ? 'Hello, I am tiny.' : 'Good morning.' }])
    expect(await mutate('testModelProvider', { name: 'mine', model: 'tiny' })).toMatchObject({
      ok: true,
      text: 'Hello, I am tiny.',
    })
    const { human, space } = await agentOf('mine:tiny')
    const { runs } = await parley.send(human, space.id, 'Hello?')
    expect(await parley.runWhen(runs[0]?.id ?? '')).toMatchObject({ status: 'COMPLETED', error: null })
    const posted = (await parley.messages(space.id)).map(({ parts }) => JSON.stringify(parts))
    expect(posted).toEqual([expect.stringContaining('Hello?'), expect.stringContaining('Good morning.')])
    expect(provider.requests.map(({ model }) => model)).toEqual(['tiny', 'tiny'])
    expect(provider.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`)
  })

  test.each([
    ['openai', (server: ModelServer) => server.baseUrl, 'responses'],
    ['anthropic', (server: ModelServer) => server.baseUrl, 'anthropic'],
    ['google', (server: ModelServer) => server.googleUrl, 'google'],
  ] as const)('providers may use the API %s', async (api, urlOf, endpoint) => {
    provider.script(() => [{ text: 'Hello.' }])
    const { modelProvider } = await mutate('setModelProvider', mine({ api, baseUrl: urlOf(provider) }))
    expect(modelProvider).toMatchObject({ ready: true, notReadyReason: null, models: ['large:8b', 'tiny'] })
    expect(await mutate('testModelProvider', { name: 'mine', model: 'tiny' })).toMatchObject({
      ok: true,
      text: 'Hello.',
    })
    expect(provider.requests.at(-1)).toMatchObject({ endpoint, model: 'tiny' })
    expect(provider.refusals).toEqual([])
  })

  test('admins see the model of agents that are created without one, which follows the providers', async () => {
    const defaultOf = async (client: ParleyClient) => (await client.ask('{ defaultModel }')).data
    expect(await defaultOf(admin)).toEqual({ defaultModel: 'demo' })
    await mutate('setModelProvider', mine({ name: 'anthropic', api: 'anthropic' }))
    expect(await defaultOf(admin)).toEqual({ defaultModel: 'anthropic:claude-haiku-4-5' })
    const { agent } = await mutate('createAgent', { name: 'Ada', instructions: '' })
    expect(agent.model).toBe('anthropic:claude-haiku-4-5')
    expect(await defaultOf(await parley.clientOf(await parley.human('Bob')))).toEqual({ defaultModel: null })
  })

  test('a provider whose key is refused, or that does not answer, is not the default, and becomes it with a key that works', async () => {
    const wrong = { name: 'openai', api: 'openai', apiKey: 'sk-another-key-that-is-wrong' }
    await mutate('setModelProvider', mine(wrong))
    expect(await parley.app.models.defaultModel()).toBe('demo')
    expect(await mutate('createAgent', { name: 'Ada', instructions: '' })).toMatchObject({ agent: { model: 'demo' } })
    await mutate('setModelProvider', mine({ name: 'google', api: 'google', baseUrl: 'http://127.0.0.1:9/v1' }))
    expect(await parley.app.models.defaultModel()).toBe('demo')
    await mutate('setModelProvider', mine({ name: 'anthropic', api: 'anthropic' }))
    expect(await parley.app.models.defaultModel()).toBe('anthropic:claude-haiku-4-5')
    await mutate('setModelProvider', mine({ ...wrong, apiKey: KEY }))
    expect(await parley.app.models.defaultModel()).toBe('openai:gpt-5-mini')
  })

  test('a provider that lists no models is the default after a test call that it answered', async () => {
    provider.listed.models = null
    provider.script(() => [{ text: 'Hello.' }])
    await mutate('setModelProvider', mine({ name: 'groq' }))
    expect(await parley.app.models.defaultModel()).toBe('demo')
    expect(await mutate('testModelProvider', { name: 'groq', model: 'tiny' })).toMatchObject({ ok: true })
    expect(await parley.app.models.defaultModel()).toBe('groq:openai/gpt-oss-20b')
  })

  test('a provider that lists its models for any key is not ready after a test call in which it refused the key', async () => {
    provider.listed.needsNoKey = true
    await mutate('setModelProvider', mine({ name: 'openrouter', apiKey: 'sk-another-key-that-is-wrong' }))
    expect(await providerOf('openrouter')).toMatchObject({ ready: true })
    expect(await mutate('testModelProvider', { name: 'openrouter', model: 'tiny' })).toMatchObject({ ok: false })
    const reason = expect.stringContaining('Incorrect API key provided')
    expect(await providerOf('openrouter')).toMatchObject({ ready: false, notReadyReason: reason })
    expect(await parley.app.models.defaultModel()).toBe('demo')
    await mutate('setModelProvider', mine({ name: 'openrouter' }))
    expect(await providerOf('openrouter')).toMatchObject({ ready: true })
  })

  test('a wrong key is not ready and fails the test with the provider’s message, without the key', async () => {
    const apiKey = 'sk-another-key-that-is-wrong'
    const { modelProvider } = await mutate('setModelProvider', mine({ apiKey }))
    expect(modelProvider).toMatchObject({ hasKey: true, ready: false, models: [] })
    expect(modelProvider.notReadyReason).toContain('Incorrect API key provided')
    const tested = await mutate('testModelProvider', { name: 'mine', model: 'tiny' })
    expect(tested).toMatchObject({ ok: false, text: expect.stringContaining('Incorrect API key provided') })
    expect(JSON.stringify([modelProvider, tested])).not.toContain(apiKey)
    await mutate('setModelProvider', mine())
    expect(await providerOf('mine')).toMatchObject({ ready: true })
  })

  test('a provider whose address lacks the version fails the test with a hint about the version', async () => {
    const baseUrl = `${provider.baseUrl.replace(/\/v1$/, '')}/nowhere`
    await mutate('setModelProvider', mine({ baseUrl }))
    expect(await mutate('testModelProvider', { name: 'mine', model: 'tiny' })).toMatchObject({
      ok: false,
      text: expect.stringMatching(/^No route .* Does baseUrl end with a version, such as \/v1\?$/),
    })
  })

  test('a provider that is down, or never responds, is reported within a bounded time', async () => {
    const closed = await startModelServer()
    await closed.close()
    const { modelProvider } = await mutate('setModelProvider', mine({ baseUrl: closed.baseUrl }))
    const notReadyReason = `Nothing answers at ${closed.baseUrl} (ECONNREFUSED).`
    expect(modelProvider).toMatchObject({ ready: false, notReadyReason })
    const tested = await mutate('testModelProvider', { name: 'mine', model: 'tiny' })
    expect(tested).toMatchObject({ ok: false, text: expect.stringMatching(/connect/i) })
    const silent = createServer(() => {})
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const baseUrl = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/v1`
    const never = await mutate('setModelProvider', mine({ baseUrl, apiKey: KEY }))
    expect(never.modelProvider.notReadyReason).toBe('The provider did not answer within 5 s.')
    silent.closeAllConnections()
    silent.close()
  })

  test('a self-hosted server needs no key, and is ready when it responds', async () => {
    const local = await startModelServer()
    local.listed.models = ['qwen3']
    local.script(() => [{ text: 'Hi.' }])
    const input = { name: 'ollama', api: 'openai-chat', baseUrl: local.baseUrl }
    const { modelProvider } = await mutate('setModelProvider', input)
    expect(modelProvider).toMatchObject({ hasKey: false, ready: true, notReadyReason: null, models: ['qwen3'] })
    expect(await mutate('testModelProvider', { name: 'ollama', model: 'qwen3' })).toMatchObject({
      ok: true,
      text: 'Hi.',
    })
    local.listed.models = null
    await mutate('setModelProvider', { ...input, baseUrl: `${local.baseUrl}/` })
    expect(await providerOf('ollama')).toMatchObject({ ready: true, models: [] })
    await local.close()
  })

  test('omitted fields stay, and a stored key is never sent to another address', async () => {
    await mutate('setModelProvider', mine())
    const same = await mutate('setModelProvider', { name: 'mine', api: 'openai-chat' })
    expect(same.modelProvider).toMatchObject({ hasKey: true, baseUrl: provider.baseUrl, ready: true })
    const other = await startModelServer()
    for (const change of [{ baseUrl: other.baseUrl }, { baseUrl: null }, { api: 'anthropic' }]) {
      const refused = await mutate('setModelProvider', { name: 'mine', api: 'openai-chat', ...change })
      expect(refused).toMatchObject({ __typename: 'BadInputError', field: 'input.apiKey' })
    }
    expect(await providerOf('mine')).toMatchObject({ api: 'openai-chat', baseUrl: provider.baseUrl })
    // Even a changed row cannot send the key to another address.
    await parley.app.platform.db.prisma
      .$executeRaw`UPDATE "ModelProvider" SET "baseUrl" = ${other.baseUrl} WHERE name = 'mine'`
    await parley.app.models.reload()
    expect(await providerOf('mine')).toMatchObject({
      ready: false,
      notReadyReason: expect.stringContaining('enter the key again'),
    })
    expect(other.requests).toEqual([])
    await other.close()
  })

  test.each([
    [{ name: 'has space' }, 'input.name'],
    [{ api: 'soap' }, 'input.api'],
    [{ baseUrl: 'ftp://example.com' }, 'input.baseUrl'],
    [{ baseUrl: `http://user:${KEY}@example.com/v1` }, 'input.baseUrl'],
    [{ apiKey: '' }, 'input.apiKey'],
    [{ apiKey: `${KEY}\nx-header: 1` }, 'input.apiKey'],
  ])('input %# is refused with the name of the field', async (change, field) => {
    expect(await mutate('setModelProvider', mine(change))).toMatchObject({ __typename: 'BadInputError', field })
    expect(await providerOf('mine')).toBeUndefined()
  })

  test('providers from the environment and built-in providers are read-only; the unused entry of OpenAI is not', async () => {
    expect(await providerOf('fixed')).toMatchObject({ fromEnvironment: true, hasKey: true })
    for (const name of ['fixed', 'demo']) {
      expect(await mutate('setModelProvider', mine({ name }))).toMatchObject({ __typename: 'ConflictError' })
      expect(await mutate('deleteModelProvider', { name })).toMatchObject({ __typename: 'ConflictError' })
    }
    expect(await mutate('deleteModelProvider', { name: 'nobody' })).toMatchObject({ __typename: 'NotFoundError' })
    expect(await mutate('testModelProvider', { name: 'nobody', model: 'x' })).toMatchObject({
      __typename: 'NotFoundError',
    })
    expect(await mutate('testModelProvider', { name: 'demo', model: 'demo' })).toMatchObject({ ok: true })
    expect(await providerOf('openai')).toMatchObject({ fromEnvironment: false, ready: false, hasKey: false })
    expect(await mutate('deleteModelProvider', { name: 'openai' })).toMatchObject({ __typename: 'NotFoundError' })
    await mutate('setModelProvider', mine({ name: 'openai', api: 'openai' }))
    expect(await providerOf('openai')).toMatchObject({ fromEnvironment: false, ready: true, hasKey: true })
    expect(await parley.app.models.defaultModel()).toBe('openai:gpt-5-mini')
    const created = await mutate('createAgent', {
      name: 'Default',
      instructions: '',
      mind: 'STATELESS',
      toolset: 'ACTIVE_SPACE',
    })
    expect(created.agent.model).toBe('openai:gpt-5-mini')
    await mutate('deleteModelProvider', { name: 'openai' })
    expect(await providerOf('openai')).toMatchObject({ ready: false, hasKey: false })
    expect(await parley.app.models.defaultModel()).toBe('demo')
  })

  test('only admins may see, change, delete or test providers', async () => {
    await mutate('setModelProvider', mine())
    const human = await parley.clientOf(await parley.human('Eve'))
    const { agent } = await agentOf('demo')
    const service = await parley.clientOf({
      scope: 'SERVICE',
      id: 'acc_x',
      name: 'ci',
      agentIds: [agent.id],
      tokenId: null,
      expiresAt: null,
    })
    for (const client of [human, service]) {
      expect(await providersOf(client)).toEqual([])
      for (const [name, input] of [
        ['setModelProvider', mine()],
        ['deleteModelProvider', { name: 'mine' }],
        ['testModelProvider', { name: 'mine', model: 'tiny' }],
      ] as const)
        expect(await mutate(name, input, client)).toMatchObject({ __typename: 'ForbiddenError' })
    }
    expect(provider.requests).toEqual([])
  })

  test('a run keeps the provider with which it began; after the deletion the next run fails with advice', async () => {
    await mutate('setModelProvider', mine())
    const { agent, human, space } = await agentOf('mine:tiny')
    const deleted = Promise.withResolvers<void>()
    provider.script(async ({ step, toolNames }) => {
      if (step > 0) return [{ text: 'Done.' }]
      await deleted.promise
      return [{ toolCall: toolNames.find((name) => /runs/i.test(name)) ?? '', input: {} }]
    })
    const { runs } = await parley.send(human, space.id, 'Begin.')
    await provider.request(({ step }) => step === 0)
    expect(await mutate('deleteModelProvider', { name: 'mine' })).toMatchObject({ deletedName: 'mine' })
    deleted.resolve()
    expect(await parley.runWhen(runs[0]?.id ?? '')).toMatchObject({ status: 'COMPLETED' })
    const next = await parley.send(human, space.id, 'Again.')
    const failed = await parley.runWhen(next.runs[0]?.id ?? '')
    expect(failed.status).toBe('FAILED')
    expect(failed.error).toContain('"mine:tiny" is unknown')
    expect(failed.error).toContain('An admin can also add the provider "mine" again.')
    expect(errorForMembers(failed)).toMatch(/^This server has no provider, or no key, for the agent's model\./)
    const warn = vi.spyOn(parley.app.platform.logger, 'warn')
    await parley.app.models.warnOfMissing()
    expect(warn.mock.calls).toContainEqual([
      { model: 'mine:tiny' },
      expect.stringMatching(/^agents use a model that cannot be called\. /),
    ])
    warn.mockRestore()
    const refused = await mutate('updateAgent', { id: agent.id, model: 'mine:large:8b' })
    expect(refused).toMatchObject({ __typename: 'BadInputError', field: 'input.model' })
    await mutate('setModelProvider', mine())
    provider.script(() => [{ text: 'Back.' }])
    const again = await parley.send(human, space.id, 'And now?')
    expect(await parley.runWhen(again.runs[0]?.id ?? '')).toMatchObject({ status: 'COMPLETED' })
  })

  test('every change is in the audit log with the name of the provider and without a key', async () => {
    await mutate('setModelProvider', mine())
    await mutate('testModelProvider', { name: 'mine', model: 'tiny' })
    await mutate('deleteModelProvider', { name: 'mine' })
    const { data } = await admin.ask<{ auditLog: { edges: { node: { action: string; detail: { name: string } } }[] } }>(
      '{ auditLog(first: 3) { edges { node { action detail } } } }',
    )
    const entries = data?.auditLog.edges.map(({ node }) => node) ?? []
    expect(entries.map(({ action }) => action)).toEqual([
      'deleteModelProvider',
      'testModelProvider',
      'setModelProvider',
    ])
    expect(entries.map(({ detail }) => detail.name)).toEqual(['mine', 'mine', 'mine'])
    expect(JSON.stringify(entries)).not.toContain(KEY)
    expect(JSON.stringify(entries)).not.toContain(provider.baseUrl)
  })

  test('keys are encrypted in the database and rotate with the other secrets', async () => {
    await mutate('setModelProvider', mine())
    const { db } = parley.app.platform
    const rows = () => db.prisma.$queryRaw<{ keySealed: string }[]>`SELECT * FROM "ModelProvider"`
    const [before] = await rows()
    expect(JSON.stringify(before)).not.toContain(KEY)
    expect(before?.keySealed).toMatch(/^v1\./)
    const rotation = await resealAll(db, parley.app.platform.secretBox)
    expect(rotation.failed).toEqual([])
    const [after] = await rows()
    expect(after?.keySealed).not.toBe(before?.keySealed)
    await parley.app.models.reload()
    expect(await providerOf('mine')).toMatchObject({ ready: true })
    const reader = createSecretBox('another-secret-key-of-32-characters')
    expect(() => reader.open(after?.keySealed ?? '', `provider:mine:openai-chat:${provider.baseUrl}`)).toThrow()
  })

  test('a second process applies a change at once, and also finds a provider whose signal it missed', async () => {
    const beside = await startTestServer({ beside: parley, worker: false })
    const other = await beside.clientOf(beside.admin)
    await mutate('setModelProvider', mine())
    await until('the other process uses it', async () => (await providerOf('mine', other))?.ready === true)
    await mutate('deleteModelProvider', { name: 'mine' })
    await until('the other process has dropped it', async () => (await providerOf('mine', other)) === undefined)
    // Writes the row without a signal.
    const sealed = parley.app.platform.secretBox.seal(KEY, `provider:unheard:openai-chat:${provider.baseUrl}`)
    await parley.app.platform.db.prisma.$executeRaw`
      INSERT INTO "ModelProvider" (name, api, "baseUrl", "keySealed") VALUES ('unheard', 'openai-chat', ${provider.baseUrl}, ${sealed})`
    const created = await mutate(
      'createAgent',
      { name: 'Far', instructions: '', model: 'unheard:tiny', mind: 'STATELESS', toolset: 'ACTIVE_SPACE' },
      other,
    )
    expect(created.agent).toMatchObject({ model: 'unheard:tiny' })
    expect(await mutate('testModelProvider', { name: 'unheard', model: 'tiny' })).toMatchObject({
      __typename: 'TestModelProviderPayload',
    })
    await beside.close()
  })
})
