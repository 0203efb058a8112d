import { createOpenAI } from '@ai-sdk/openai'
import { defaultSettingsMiddleware, type LanguageModel, wrapLanguageModel } from 'ai'

export interface OpenAISettings {
  /** May be missing where `baseURL` names a server of one's own that asks for none. */
  apiKey?: string
  /** With its version path, e.g. `http://localhost:11434/v1`; OpenAI's own where not given. */
  baseURL?: string
}

export interface OpenAIModels {
  /** Speaks the Responses API. */
  responses(modelId: string): LanguageModel
  /** Speaks Chat Completions. */
  chat(modelId: string): LanguageModel
}

/** The SDK insists on a key; servers of one's own ignore what they are sent. */
const NO_KEY = 'none'

/** OpenAI's models, or those of a compatible server. */
export function createOpenAIModels({ apiKey, baseURL = 'https://api.openai.com/v1' }: OpenAISettings): OpenAIModels {
  const provider = createOpenAI({ apiKey: apiKey ?? NO_KEY, baseURL })
  return {
    responses: (modelId) =>
      wrapLanguageModel({ model: provider.responses(modelId), middleware: selfContainedHistory, modelId }),
    chat: (modelId) => provider.chat(modelId),
  }
}

/**
 * Our history is the only state: it is sent whole, and taken up by any process, also years later. By default the Responses
 * API stores each response, and the SDK sends references to its items instead of their content, which a history that was
 * shortened or repaired breaks. With `store: false` it sends full items, and asks a reasoning model for its reasoning in
 * encrypted form, which stands in the history as the part's `providerOptions` and is sent back with it.
 */
const selfContainedHistory = defaultSettingsMiddleware({ settings: { providerOptions: { openai: { store: false } } } })
