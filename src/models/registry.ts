import { extractReasoningMiddleware, type LanguageModel, wrapLanguageModel } from 'ai'
import type { ModelProviderSettings } from '../config.ts'
import { faultOfForeignModel, isForeignModel } from '../lib/foreign-model.ts'
import { ModelNotSetUpError } from '../lib/model-fault.ts'
import { parseModelName } from '../lib/model-name.ts'
import { makerOf, settingOfPreset } from '../lib/model-provider.ts'
import { openAnthropic } from './anthropic.ts'
import { createDemoModel } from './demo.ts'
import { openGoogle } from './google.ts'
import type { LanguageModelV4 } from './language-model.ts'
import { openOpenAI } from './openai.ts'
import { openCompatible } from './openai-compatible.ts'
import type { CreateModel } from './provider.ts'
import { createRedaction } from './redaction.ts'
import { textCalls } from './text-calls.ts'

/** The models that agents can use, by name. */
export interface ModelRegistry {
  /**
   * Returns the model with this name, after loading its provider's package.
   * @throws ModelNotSetUpError with the message of `check` if the model cannot be used
   */
  resolve(name: string): Promise<LanguageModel>
  /** Returns a sentence that says why the model cannot be used; null if it can be used. */
  check(name: string): string | null
  /** Whether the model's provider is self-hosted. */
  isLocal(name: string): boolean
  /** Whether the model accepts files of this type in tool results. */
  takesFile(name: string, mediaType: string): boolean
  /** The providers in the order of `PARLEY_PROVIDERS`, with the built-in provider last. */
  providers: RegisteredProvider[]
  /** Returns the settings of a provider; undefined for an unknown provider and for the built-in provider. */
  settingsOf(provider: string): ModelProviderSettings | undefined
  /** Removes the configured keys, and text that looks like a key, from a provider's text. */
  redact(text: string): string
}

/** A provider without its key. */
export interface RegisteredProvider {
  name: string
  api: string
  baseUrl: string | null
  hasKey: boolean
  /** Whether the provider is built in or configured in the environment, so that the API cannot change it. */
  fromEnvironment: boolean
}

export interface ModelRegistryOptions {
  providers?: ModelProviderSettings[]
  /** The providers that admins added. Entries of `providers` with the same name take precedence, unless they are vacant. */
  added?: readonly ModelProviderSettings[]
  /** The output speed of the demo model. 0 means no delay. */
  demoTokensPerSecond?: number
  /** Additional models by full name, for tests and replays. */
  extra?: Record<string, LanguageModel>
}

const PACKAGES: Record<ModelProviderSettings['package'], (settings: ModelProviderSettings) => Promise<CreateModel>> = {
  '@ai-sdk/openai': openOpenAI,
  '@ai-sdk/openai-compatible': openCompatible,
  '@ai-sdk/anthropic': openAnthropic,
  '@ai-sdk/google': openGoogle,
}

const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp']
/** The types of files that an API accepts in tool results. Chat Completions accepts only text. */
const FILES_IN_RESULTS: Record<ModelProviderSettings['api'], readonly string[]> = {
  openai: [...IMAGES, 'application/pdf'],
  'openai-chat': [],
  anthropic: [...IMAGES, 'application/pdf'],
  google: ['image/png', 'image/jpeg', 'image/webp'],
}

export function createModelRegistry(options: ModelRegistryOptions = {}): ModelRegistry {
  const { added = [], demoTokensPerSecond, extra = {} } = options
  const { providers, isAdded } = joined(options.providers ?? [], added)
  const byName = new Map(providers.map((provider) => [provider.name, provider]))
  const opened = new Map<string, Promise<CreateModel>>()
  const models = new Map<string, LanguageModel>([
    ['demo', createDemoModel({ tokensPerSecond: demoTokensPerSecond })],
    ...Object.entries(extra),
  ])

  const providerOf = (name: string) => byName.get(parseModelName(name)?.provider ?? '')

  function check(name: string): string | null {
    if (models.has(name)) return null
    if (isForeignModel(name)) return faultOfForeignModel(name)
    const provider = providerOf(name)
    if (provider !== undefined) {
      return provider.lacks === null
        ? null
        : `The model ${JSON.stringify(name)} cannot be used: its provider ${provider.lacks}.`
    }
    const { provider: missing = '' } = parseModelName(name) ?? {}
    const remedy = settingOfPreset(missing)
    if (remedy !== null) {
      return `The model ${JSON.stringify(name)} needs the provider "${missing}": ${remedy} and restart, or add the provider in the console under Models.`
    }
    const usable = providers.filter(({ lacks }) => lacks === null).map((one) => `"${one.name}:<model>"`)
    const known = usable.length === 0 ? '"demo"' : `${usable.join(', ')} or "demo"`
    const maker = makerOf(name)
    const guess = maker === null ? '' : ` Did you mean "${maker}:${name}"?`
    return `The model ${JSON.stringify(name)} is unknown.${guess} Use ${known}.`
  }

  /** Loads the provider's package when the first of its models is needed. */
  async function open(provider: ModelProviderSettings): Promise<CreateModel> {
    const opening = opened.get(provider.name) ?? PACKAGES[provider.package](provider)
    opened.set(provider.name, opening)
    opening.catch(() => opened.delete(provider.name))
    return opening
  }

  return {
    check,
    isLocal: (name) => providerOf(name)?.isLocal === true,
    takesFile(name, mediaType) {
      const api = providerOf(name)?.api
      return api !== undefined && FILES_IN_RESULTS[api].includes(mediaType)
    },
    async resolve(name) {
      const known = models.get(name)
      if (known !== undefined) return known
      const problem = check(name)
      if (problem !== null) throw new ModelNotSetUpError(problem)
      if (isForeignModel(name))
        throw new ModelNotSetUpError(`${JSON.stringify(name)} can only be the model of an agent.`)
      const { provider, modelId } = parseModelName(name) as NonNullable<ReturnType<typeof parseModelName>>
      const settings = byName.get(provider) as ModelProviderSettings
      const create = await open(settings)
      const model = models.get(name) ?? (settings.isLocal ? corrected(create(modelId)) : create(modelId))
      models.set(name, model)
      return model
    },
    providers: [
      ...providers.map((provider) => {
        const { name, api, baseUrl, apiKey, isVacant = false } = provider
        return { name, api, baseUrl, hasKey: apiKey !== null, fromEnvironment: !isVacant && !isAdded(provider) }
      }),
      { name: 'demo', api: 'demo', baseUrl: null, hasKey: false, fromEnvironment: true },
    ],
    settingsOf: (provider) => byName.get(provider),
    redact: createRedaction(providers.flatMap(({ apiKey, headers }) => [apiKey ?? '', ...Object.values(headers)])),
  }
}

/** Combines the providers from the environment with those that admins added. */
function joined(given: readonly ModelProviderSettings[], added: readonly ModelProviderSettings[]) {
  const taken = new Set(given.flatMap(({ name, isVacant }) => (isVacant ? [] : [name])))
  const others = new Set(added.filter(({ name }) => !taken.has(name)))
  const names = new Set([...others].map(({ name }) => name))
  const providers = [...given.filter(({ name }) => !names.has(name)), ...others]
  return { providers, isAdded: (provider: ModelProviderSettings) => others.has(provider) }
}

/**
 * Wraps a model of a self-hosted server. Such a server can return reasoning and calls as text between tags, as the
 * model generated them.
 */
function corrected(model: LanguageModel): LanguageModel {
  const middleware = [textCalls, extractReasoningMiddleware({ tagName: 'think' })]
  return wrapLanguageModel({ model: model as LanguageModelV4, middleware })
}
