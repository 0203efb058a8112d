import { type CallWishes, granting, withOptions } from './call-wishes.ts'
import { withCorrectedEvents } from './chat-stream.ts'
import type { CallOptions } from './language-model.ts'
import { modelFetch } from './model-fetch.ts'
import { type CreateModel, NO_KEY, type ProviderSettings } from './provider.ts'

const TIERS = ['auto', 'default', 'flex', 'priority']

/** Creates OpenAI models, or models of a compatible server, with the Responses or Chat Completions API. */
export async function openOpenAI({ api, baseUrl, apiKey, headers }: ProviderSettings): Promise<CreateModel> {
  const { createOpenAI } = await import('@ai-sdk/openai')
  const baseURL = baseUrl ?? 'https://api.openai.com/v1'
  const chatFetch: typeof fetch = async (...request) => withCorrectedEvents(await modelFetch(...request))
  const provider = createOpenAI({
    baseURL,
    apiKey: apiKey ?? NO_KEY,
    headers,
    fetch: api === 'openai-chat' ? chatFetch : modelFetch,
  })
  const grant = (call: CallOptions, wishes: CallWishes) =>
    // The cache key is omitted for compatible servers, because they can reject unknown options.
    tiered(baseUrl === null ? withOptions(call, 'openai', { promptCacheKey: wishes.cacheKey }) : call, wishes)
  if (api === 'openai-chat') return (modelId) => granting(provider.chat(modelId), grant)
  return (modelId) => granting(provider.responses(modelId), (call, wishes) => selfContained(grant(call, wishes)))
}

function tiered(call: CallOptions, { serviceTier = '' }: CallWishes): CallOptions {
  return TIERS.includes(serviceTier) ? withOptions(call, 'openai', { serviceTier }) : call
}

/**
 * Makes requests independent of stored responses. By default, the Responses API stores each response, and the SDK sends
 * references to its items. This fails when Parley shortens or repairs the history, or when a run continues after the
 * responses were deleted. With `store: false`, the SDK sends complete items and requests encrypted reasoning. The
 * history keeps this reasoning in the part's `providerOptions` and sends it back.
 */
function selfContained(call: CallOptions): CallOptions {
  return withOptions(call, 'openai', { store: false })
}
