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

/** The models that agents can be given, by name. */
export interface ModelRegistry {
  /** The model of that name, its provider's package loaded. @throws Error with `check`'s words where there is none */
  resolve(name: string): Promise<LanguageModel>
  /** Why the name cannot be used here, in a sentence for whoever chose it; null where it can. */
  check(name: string): string | null
  /** The providers, in the order of their setting, the built-in one last. */
  providers: RegisteredProvider[]
  /** A text of a provider's without the keys that were set, and without what looks like one. */
  redact(text: string): string
}

/** A provider as it is shown: without its key. */
export interface RegisteredProvider {
  name: string
  api: string
  baseUrl: string | null
  hasKey: boolean
}

export interface ModelRegistryOptions {
  providers?: ModelProviderSettings[]
  /** How fast the demo model writes; 0 for without delay. */
  demoTokensPerSecond?: number
  /** Further models by their full name, for tests. */
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

  /** The provider's package is loaded when the first of its models is asked for. */
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
