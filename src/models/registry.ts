import type { LanguageModel } from 'ai'
import { parseModelName } from '../lib/model-name.ts'
import { createDemoModel } from './demo.ts'
import { createOpenAIModels, type OpenAISettings } from './openai.ts'

/** The models that agents can be given, by name. */
export interface ModelRegistry {
  /** The model of that name, with everything that it needs set; throws an Error with `check`'s words where there is none. */
  resolve(name: string): LanguageModel
  /** Why the name cannot be used here, in a sentence for whoever chose it; null where it can. */
  check(name: string): string | null
}

export interface ModelRegistryOptions {
  /** Settings of the providers `openai:` and `openai.chat:`; neither is usable without a key or a base URL. */
  openai?: OpenAISettings
  /** How fast the demo model writes; 0 for without delay. */
  demoTokensPerSecond?: number
  /** Further models by their full name, for tests. */
  extra?: Record<string, LanguageModel>
}

export function createModelRegistry(options: ModelRegistryOptions = {}): ModelRegistry {
  const { openai = {}, demoTokensPerSecond, extra = {} } = options
  const isOpenAIUsable = Boolean(openai.apiKey) || Boolean(openai.baseURL)
  const openaiModels = createOpenAIModels({
    apiKey: openai.apiKey || undefined,
    baseURL: openai.baseURL || undefined,
  })
  const models = new Map<string, LanguageModel>(Object.entries(extra))
  models.set('demo', createDemoModel({ tokensPerSecond: demoTokensPerSecond }))

  function check(name: string): string | null {
    if (models.has(name)) return null
    if (parseModelName(name) === null) {
      return `The model ${JSON.stringify(name)} is unknown. Use "openai:<model>", "openai.chat:<model>" or "demo".`
    }
    if (isOpenAIUsable) return null
    return `The model ${JSON.stringify(name)} needs OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server; "demo" needs neither.`
  }

  function resolve(name: string): LanguageModel {
    const known = models.get(name)
    if (known !== undefined) return known
    const parsed = parseModelName(name)
    const problem = check(name)
    if (parsed?.provider !== 'openai' || problem !== null) throw new Error(problem ?? `The model ${name} is unknown.`)
    const model = openaiModels[parsed.endpoint](parsed.modelId)
    models.set(name, model)
    return model
  }

  return { resolve, check }
}
