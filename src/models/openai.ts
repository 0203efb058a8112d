import { type CallWishes, granting, withOptions } from './call-wishes.ts'
import type { CallOptions } from './language-model.ts'
import { modelFetch } from './model-fetch.ts'
import { type CreateModel, NO_KEY, type ProviderSettings } from './provider.ts'

const TIERS = ['auto', 'default', 'flex', 'priority']

/** OpenAI's models, or those of a server that speaks its API: Responses, or Chat Completions. */
export async function openOpenAI({ api, baseUrl, apiKey, headers }: ProviderSettings): Promise<CreateModel> {
  const { createOpenAI } = await import('@ai-sdk/openai')
  const baseURL = baseUrl ?? 'https://api.openai.com/v1'
  const provider = createOpenAI({ baseURL, apiKey: apiKey ?? NO_KEY, headers, fetch: modelFetch })
  const grant = (call: CallOptions, wishes: CallWishes) =>
    // Servers of one's own may refuse what they do not know.
    tiered(baseUrl === null ? withOptions(call, 'openai', { promptCacheKey: wishes.cacheKey }) : call, wishes)
  if (api === 'openai-chat') return (modelId) => granting(provider.chat(modelId), grant)
  return (modelId) => granting(provider.responses(modelId), (call, wishes) => selfContained(grant(call, wishes)))
}

function tiered(call: CallOptions, { serviceTier = '' }: CallWishes): CallOptions {
  return TIERS.includes(serviceTier) ? withOptions(call, 'openai', { serviceTier }) : call
}

/**
 * Our history is the only state: it is sent whole, and taken up by any process, also years later. By default the Responses
 * API stores each response, and the SDK sends references to its items instead of their content, which a history that was
 * shortened or repaired breaks. With `store: false` it sends full items, and asks a reasoning model for its reasoning in
 * encrypted form, which stands in the history as the part's `providerOptions` and is sent back with it.
 */
function selfContained(call: CallOptions): CallOptions {
  return withOptions(call, 'openai', { store: false })
}
