import type { Viewer } from '../access/viewer.ts'
import { MODELS_CHANNEL } from '../broker/topics.ts'
import { BadInputError, ConflictError, NotFoundError } from '../lib/errors.ts'
import { FOREIGN_PREFIXES } from '../lib/foreign-model.ts'
import { storableText } from '../lib/json.ts'
import { PROVIDER_NAME } from '../lib/model-name.ts'
import {
  isBaseUrl,
  keyContext,
  MODEL_APIS,
  type ModelApi,
  PROVIDER_PRESETS,
  sendableSecret,
} from '../lib/model-provider.ts'
import type { ModelProvider, Models } from '../models/models.ts'
import type { ProviderTest } from '../models/provider-test.ts'
import type { Platform } from '../platform/platform.ts'
import { requireAdmin } from '../rules/permissions.ts'
import {
  countProviders,
  deleteProvider,
  lockProvider,
  type StoredProvider,
  writeProvider,
} from '../stores/provider-store.ts'

/**
 * Changes to a provider. Absent fields stay unchanged. `baseUrl: null` restores the API's default address; `apiKey:
 * null` removes the key.
 */
export interface SetModelProviderInput {
  name: string
  api: string
  baseUrl?: string | null
  apiKey?: string | null
}

export interface TestModelProviderInput {
  name: string
  model: string
}

/** Manages the model providers that admins add while the server is running. */
export interface ModelProviders {
  list(): Promise<ModelProvider[]>
  /** Returns the name of the model for agents that are created without one. */
  defaultModel(): Promise<string>
  /**
   * Adds or changes a provider.
   * @throws ForbiddenError; BadInputError for the first invalid field; ConflictError for a provider from the
   * environment
   */
  save(viewer: Viewer, input: SetModelProviderInput): Promise<ModelProvider>
  /**
   * Deletes a provider. Agents that use its models are not changed. Their runs fail with an error that explains what
   * to do, until a provider with this name is added again.
   * @throws ForbiddenError, NotFoundError; ConflictError for a provider from the environment
   */
  delete(viewer: Viewer, name: string): Promise<{ deletedName: string }>
  /**
   * Sends one test request to a model.
   * @throws ForbiddenError, NotFoundError
   */
  test(viewer: Viewer, input: TestModelProviderInput): Promise<ProviderTest>
}

const MOST_PROVIDERS = 100
const LONGEST_URL = 2048
const LONGEST_KEY = 8192

export function createModelProviders(
  { db, secretBox, signals }: Pick<Platform, 'db' | 'secretBox' | 'signals'>,
  { models }: { models: Pick<Models, 'listProviders' | 'defaultModel' | 'reload' | 'changed' | 'test'> },
): ModelProviders {
  async function known(name: string): Promise<ModelProvider | undefined> {
    return (await models.listProviders()).find((provider) => provider.name === name)
  }

  /** @throws ConflictError if admins may not change a provider with this name */
  async function requireFree(name: string): Promise<void> {
    if (FOREIGN_PREFIXES.has(name))
      throw new ConflictError(`Models that begin with "${name}:" are agents on other servers: use another name.`)
    if (name === 'demo')
      throw new ConflictError('The provider "demo" is built in and cannot be changed: use another name.')
    if ((await known(name))?.fromEnvironment === true)
      throw new ConflictError(
        `Environment variables of the server configure the provider "${name}": change them, or use another name.`,
      )
  }

  async function publish(name: string): Promise<void> {
    await models.changed(name)
    await signals.publish(MODELS_CHANNEL, { type: 'providers-changed' })
  }

  return {
    list: models.listProviders,
    defaultModel: models.defaultModel,
    async save(viewer, input) {
      requireAdmin(viewer, 'change model providers')
      const { name } = input
      const given = checkInput(input)
      await requireFree(name)
      await db.transaction(async (tx) => {
        const before = await lockProvider(tx, name)
        if (before === null && (await countProviders(tx)) >= MOST_PROVIDERS)
          throw new BadInputError(
            `A server can have at most ${MOST_PROVIDERS} model providers: delete one first.`,
            'input.name',
          )
        const changed = changedProvider(given, before)
        const { apiKey } = changed
        const keySealed = typeof apiKey === 'string' ? secretBox.seal(apiKey, keyContext(changed)) : null
        const stored = { name, api: changed.api, baseUrl: changed.baseUrl }
        await writeProvider(tx, {
          ...stored,
          keySealed: apiKey === undefined ? (before?.keySealed ?? null) : keySealed,
        })
      })
      await publish(name)
      const provider = await known(name)
      if (provider === undefined) throw new ConflictError(`The provider "${name}" was deleted at the same time.`)
      return provider
    },
    async delete(viewer, name) {
      requireAdmin(viewer, 'delete model providers')
      // PostgreSQL cannot store such text, so it cannot be the name of a provider.
      if (storableText(name) !== name) throw new NotFoundError(NO_SUCH_PROVIDER)
      await requireFree(name)
      await db.transaction(async (tx) => {
        await lockProvider(tx, name)
        if (!(await deleteProvider(tx, name))) throw new NotFoundError(NO_SUCH_PROVIDER)
      })
      await publish(name)
      return { deletedName: name }
    },
    async test(viewer, { name, model }) {
      requireAdmin(viewer, 'test model providers')
      if ((await known(name)) === undefined) await models.reload()
      const tested = await models.test(name, model)
      if (tested === null) throw new NotFoundError(NO_SUCH_PROVIDER)
      return tested
    },
  }
}

const NO_SUCH_PROVIDER = 'There is no model provider with this name.'

interface CheckedInput {
  name: string
  api: ModelApi
  baseUrl: string | null | undefined
  apiKey: string | null | undefined
}

/** @throws BadInputError with a text that never contains the key */
function checkInput({ name, api, baseUrl, apiKey }: SetModelProviderInput): CheckedInput {
  if (!PROVIDER_NAME.test(name))
    throw new BadInputError(
      'A provider name has at most 64 letters, digits, "_", "." and "-", and begins with a letter or digit.',
      'input.name',
    )
  const known = MODEL_APIS.find((one) => one === api)
  if (known === undefined) throw new BadInputError(`Must be one of ${MODEL_APIS.join(', ')}.`, 'input.api')
  if (baseUrl != null && (baseUrl.length > LONGEST_URL || !isBaseUrl(baseUrl)))
    throw new BadInputError(
      `Must be a URL that begins with http:// or https://, without user, password, query or fragment, of at most ${LONGEST_URL} characters.`,
      'input.baseUrl',
    )
  const key = apiKey == null ? apiKey : sendableSecret(apiKey)
  if ((apiKey != null && key === null) || (key ?? '').length > LONGEST_KEY)
    throw new BadInputError(
      `An API key has 1 to ${LONGEST_KEY} printable ASCII characters. Null removes the key.`,
      'input.apiKey',
    )
  return { name, api: known, baseUrl, apiKey: key }
}

/**
 * Returns the provider after the change; `apiKey: undefined` keeps the stored key. A stored key is sent only to the
 * address for which it was entered.
 * @throws BadInputError
 */
function changedProvider(
  { name, api, baseUrl: given, apiKey }: CheckedInput,
  before: StoredProvider | null,
): CheckedInput & { baseUrl: string | null } {
  const preset = PROVIDER_PRESETS.get(name)
  const usual = preset?.api === api ? (preset.baseUrl ?? null) : null
  const baseUrl = (given === undefined ? before?.baseUrl : given) ?? usual
  const isElsewhere = before !== null && (before.api !== api || before.baseUrl !== baseUrl)
  if (isElsewhere && before.keySealed !== null && apiKey === undefined)
    throw new BadInputError(
      'The API or the address has changed: enter the API key again. The stored key is not sent to another address.',
      'input.apiKey',
    )
  return { name, api, baseUrl, apiKey }
}
