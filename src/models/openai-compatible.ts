import { granting, withOptions } from './call-wishes.ts'
import { modelFetch } from './model-fetch.ts'
import type { CreateModel, ProviderSettings } from './provider.ts'

/** The namespace of the SDK's options. What it does not know of them goes into the request as it is. */
const NAMESPACE = 'compatible'

/** Models of a server that speaks Chat Completions: Ollama, LM Studio, vLLM, OpenRouter and many more. Their reasoning is kept. */
export async function openCompatible({ name, baseUrl, apiKey, headers }: ProviderSettings): Promise<CreateModel> {
  const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
  const provider = createOpenAICompatible({
    name: NAMESPACE,
    baseURL: baseUrl ?? '',
    ...(apiKey === null ? {} : { apiKey }),
    headers,
    fetch: modelFetch,
    includeUsage: true,
  })
  return (modelId) => {
    // https://openrouter.ai/docs: Anthropic's models cache what is marked; at the top it marks the end of each request.
    const isMarked = name === 'openrouter' && modelId.startsWith('anthropic/')
    const marks = isMarked ? { cache_control: { type: 'ephemeral' } } : {}
    return granting(provider.chatModel(modelId), (call, { serviceTier }) =>
      withOptions(call, NAMESPACE, { ...marks, ...(serviceTier === undefined ? {} : { service_tier: serviceTier }) }),
    )
  }
}
