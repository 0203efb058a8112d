import type { LanguageModel } from 'ai'
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
    const parsed = parseName(name)
    if (parsed === null) {
      return `The model ${JSON.stringify(name)} is unknown. Use "openai:<model>", "openai.chat:<model>" or "demo".`
    }
    if (isOpenAIUsable) return null
    return `The model ${JSON.stringify(name)} needs OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server; "demo" needs neither.`
  }

  function resolve(name: string): LanguageModel {
    const known = models.get(name)
    if (known !== undefined) return known
    const parsed = parseName(name)
    const problem = check(name)
    if (parsed === null || problem !== null) throw new Error(problem ?? `The model ${name} is unknown.`)
    const model = openaiModels[parsed.endpoint](parsed.modelId)
    models.set(name, model)
    return model
  }

  return { resolve, check }
}

/** `openai:<model>` or `openai.chat:<model>`; a model's own name may hold colons and slashes, as `llama3.1:8b` does. */
function parseName(name: string): { endpoint: 'responses' | 'chat'; modelId: string } | null {
  const match = /^(openai|openai\.chat):([\x21-\x7e]{1,200})$/.exec(name)
  if (match === null) return null
  return { endpoint: match[1] === 'openai' ? 'responses' : 'chat', modelId: match[2] as string }
}
