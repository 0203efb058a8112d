import type { LanguageModel } from 'ai'
import type { ModelProviderSettings } from '../config.ts'

export type ProviderSettings = Pick<ModelProviderSettings, 'name' | 'api' | 'baseUrl' | 'apiKey' | 'headers'>

/** Creates a model from the provider's own name for it. */
export type CreateModel = (modelId: string) => LanguageModel

/** The SDK requires a key, or it reads one from the environment. Self-hosted servers ignore this value. */
export const NO_KEY = 'none'
