import { granting, withOptions } from './call-wishes.ts'
import { modelFetch } from './model-fetch.ts'
import { type CreateModel, NO_KEY, type ProviderSettings } from './provider.ts'

const TIERS = ['standard', 'flex', 'priority']

/** Creates Google models, which use the Gemini API. The API caches common prefixes on its own. */
export async function openGoogle({ baseUrl, apiKey, headers }: ProviderSettings): Promise<CreateModel> {
  const { createGoogle } = await import('@ai-sdk/google')
  const baseURL = baseUrl ?? 'https://generativelanguage.googleapis.com/v1beta'
  const provider = createGoogle({ baseURL, apiKey: apiKey ?? NO_KEY, headers, fetch: modelFetch })
  return (modelId) =>
    granting(provider.chat(modelId), (call, { serviceTier = '' }) => {
      const isAskedToReason = call.reasoning !== undefined && !['none', 'provider-default'].includes(call.reasoning)
      return withOptions(call, 'google', {
        // Without this option, thoughts are billed but not returned. Models that cannot think reject this option.
        ...(isAskedToReason ? { thinkingConfig: { includeThoughts: true } } : {}),
        ...(TIERS.includes(serviceTier) ? { serviceTier } : {}),
      })
    })
}
