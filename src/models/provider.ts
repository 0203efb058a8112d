import type { LanguageModel } from 'ai'
import type { ModelProviderSettings } from '../config.ts'

export type ProviderSettings = Pick<ModelProviderSettings, 'name' | 'api' | 'baseUrl' | 'apiKey' | 'headers'>

/** A provider's model by the provider's own name for it. */
export type CreateModel = (modelId: string) => LanguageModel

/** The SDK insists on a key, or looks for one in the environment; servers of one's own ignore what they are sent. */
export const NO_KEY = 'none'
