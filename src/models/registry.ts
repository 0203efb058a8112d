import type { LanguageModel } from 'ai'
import type { ModelProviderSettings } from '../config.ts'
import { parseModelName } from '../lib/model-name.ts'
import { openAnthropic } from './anthropic.ts'
import { createDemoModel } from './demo.ts'
import { openGoogle } from './google.ts'
import { openOpenAI } from './openai.ts'
import { openCompatible } from './openai-compatible.ts'
import type { CreateModel } from './provider.ts'
import { createRedaction } from './redaction.ts'

/** The models that agents may use, by name. */
export interface ModelRegistry {
  /**
   * Returns the model with this name after loading its provider's package. @throws Error with the message of `check`
   * for an unusable name
   */
  resolve(name: string): Promise<LanguageModel>
  /** Returns why the name cannot be used, as a sentence; null if it can. */
  check(name: string): string | null
  /** The providers in the order of the setting, the built-in one last. */
  providers: RegisteredProvider[]
  /** Removes the configured keys, and text that looks like a key, from a provider's text. */
  redact(text: string): string
}

/** A provider without its key. */
export interface RegisteredProvider {
  name: string
  api: string
  baseUrl: string | null
  hasKey: boolean
}

export interface ModelRegistryOptions {
  providers?: ModelProviderSettings[]
  /** The output speed of the demo model; 0 for no delay. */
  demoTokensPerSecond?: number
  /** Further models by full name, for tests. */
  extra?: Record<string, LanguageModel>
}

const PACKAGES: Record<ModelProviderSettings['package'], (settings: ModelProviderSettings) => Promise<CreateModel>> = {
  '@ai-sdk/openai': openOpenAI,
  '@ai-sdk/openai-compatible': openCompatible,
  '@ai-sdk/anthropic': openAnthropic,
  '@ai-sdk/google': openGoogle,
}

export function createModelRegistry(options: ModelRegistryOptions = {}): ModelRegistry {
  const { providers = [], demoTokensPerSecond, extra = {} } = options
  const byName = new Map(providers.map((provider) => [provider.name, provider]))
  const opened = new Map<string, Promise<CreateModel>>()
  const models = new Map<string, LanguageModel>(Object.entries(extra))
  models.set('demo', createDemoModel({ tokensPerSecond: demoTokensPerSecond }))

  function check(name: string): string | null {
    if (models.has(name)) return null
    const provider = byName.get(parseModelName(name)?.provider ?? '')
    if (provider === undefined) {
      const known = [...byName.keys(), 'demo'].map((known) => (known === 'demo' ? '"demo"' : `"${known}:<model>"`))
      return `The model ${JSON.stringify(name)} is unknown. Use ${known.slice(0, -1).join(', ')} or ${known.at(-1)}.`
    }
    return provider.lacks === null ? null : `The model ${JSON.stringify(name)} ${provider.lacks}.`
  }

  /** Loads the provider's package for the first of its models. */
  async function open(provider: ModelProviderSettings): Promise<CreateModel> {
    const opening = opened.get(provider.name) ?? PACKAGES[provider.package](provider)
    opened.set(provider.name, opening)
    opening.catch(() => opened.delete(provider.name))
    return opening
  }

  return {
    check,
    async resolve(name) {
      const known = models.get(name)
      if (known !== undefined) return known
      const problem = check(name)
      if (problem !== null) throw new Error(problem)
      const { provider, modelId } = parseModelName(name) as NonNullable<ReturnType<typeof parseModelName>>
      const create = await open(byName.get(provider) as ModelProviderSettings)
      const model = models.get(name) ?? create(modelId)
      models.set(name, model)
      return model
    },
    providers: [
      ...providers.map(({ name, api, baseUrl, apiKey }) => ({ name, api, baseUrl, hasKey: apiKey !== null })),
      { name: 'demo', api: 'demo', baseUrl: null, hasKey: false },
    ],
    redact: createRedaction(providers.flatMap(({ apiKey, headers }) => [apiKey ?? '', ...Object.values(headers)])),
  }
}
