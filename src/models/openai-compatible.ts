import { granting, withOptions } from './call-wishes.ts'
import { withCorrectedEvents } from './chat-stream.ts'
import { modelFetch } from './model-fetch.ts'
import type { CreateModel, ProviderSettings } from './provider.ts'

/** The namespace of the SDK's options. Options that the SDK does not know are added to the request unchanged. */
const NAMESPACE = 'compatible'

/**
 * Creates models of a server with a Chat Completions API: Ollama, LM Studio, vLLM, OpenRouter and others. Keeps the
 * reasoning of the models.
 */
export async function openCompatible({ name, baseUrl, apiKey, headers }: ProviderSettings): Promise<CreateModel> {
  const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
  const provider = createOpenAICompatible({
    name: NAMESPACE,
    baseURL: baseUrl ?? '',
    ...(apiKey === null ? {} : { apiKey }),
    headers,
    fetch: async (...request) => withCorrectedEvents(await modelFetch(...request)),
    includeUsage: true,
  })
  return (modelId) => {
    // On OpenRouter, Anthropic models cache the prompt up to a mark. A mark at the top level of the request has the
    // same effect as one at its end (https://openrouter.ai/docs).
    const isMarked = name === 'openrouter' && modelId.startsWith('anthropic/')
    const marks = isMarked ? { cache_control: { type: 'ephemeral' } } : {}
    return granting(provider.chatModel(modelId), (call, { serviceTier }) =>
      withOptions(call, NAMESPACE, { ...marks, ...(serviceTier === undefined ? {} : { service_tier: serviceTier }) }),
    )
  }
}
