import { granting, withOptions } from './call-wishes.ts'
import type { CallOptions, PromptMessage } from './language-model.ts'
import { modelFetch } from './model-fetch.ts'
import { type CreateModel, NO_KEY, type ProviderSettings } from './provider.ts'

const TIERS = ['auto', 'standard_only']

/** Anthropic's models by the Messages API. */
export async function openAnthropic({ baseUrl, apiKey, headers }: ProviderSettings): Promise<CreateModel> {
  const { createAnthropic } = await import('@ai-sdk/anthropic')
  const baseURL = baseUrl ?? 'https://api.anthropic.com/v1'
  const provider = createAnthropic({ baseURL, apiKey: apiKey ?? NO_KEY, headers, fetch: modelFetch })
  return (modelId) =>
    granting(provider.messages(modelId), (call, { serviceTier = '' }) => {
      const marked = { ...thinkable(call), prompt: withCacheMarks(call.prompt) }
      return TIERS.includes(serviceTier) ? withOptions(marked, 'anthropic', { serviceTier }) : marked
    })
}

/** Who has begun to use tools without thinking, as another model may have, has to go on so: else the request is refused. */
function thinkable(call: CallOptions): CallOptions {
  const at = call.prompt.findLastIndex(({ role }) => role === 'assistant')
  const last = call.prompt[at]
  const isUsingTools = last?.role === 'assistant' && call.prompt[at + 1]?.role === 'tool'
  if (call.reasoning === undefined || !isUsingTools) return call
  return last.content.some(({ type }) => type === 'reasoning') ? call : { ...call, reasoning: 'none' }
}

/**
 * The prompt with its four cache marks (https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching): a request is read
 * from the cache up to the last mark that an earlier one had at the same place, and kept up to its own. The instructions, with
 * the tools before them, serve every run; the last results serve the run's next step; of the last two user messages one is
 * what this run or cycle began with, the other what the cycle before it began with, up to which both are the same.
 */
function withCacheMarks(prompt: CallOptions['prompt']): CallOptions['prompt'] {
  const users = prompt.flatMap(({ role }, index) => (role === 'user' ? [index] : [])).slice(-2)
  const marked = new Set([
    prompt.findLastIndex(({ role }) => role === 'system'),
    prompt.findLastIndex(({ role }) => role === 'tool'),
    ...users,
  ])
  return prompt.map((message, index) => (marked.has(index) ? withCacheMark(message) : message))
}

function withCacheMark<M extends PromptMessage>(message: M): M {
  const anthropic = { ...message.providerOptions?.anthropic, cacheControl: { type: 'ephemeral' } }
  return { ...message, providerOptions: { ...message.providerOptions, anthropic } }
}
