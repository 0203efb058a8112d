import { granting, withOptions } from './call-wishes.ts'
import type { CallOptions, PromptMessage } from './language-model.ts'
import { modelFetch } from './model-fetch.ts'
import { type CreateModel, NO_KEY, type ProviderSettings } from './provider.ts'

const TIERS = ['auto', 'standard_only']

/** Creates Anthropic models, which use the Messages API. */
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

/**
 * Disables thinking if the prompt contains tool calls without thinking, which another model may have made. The API
 * rejects such a prompt if thinking is enabled.
 */
function thinkable(call: CallOptions): CallOptions {
  const at = call.prompt.findLastIndex(({ role }) => role === 'assistant')
  const last = call.prompt[at]
  const isUsingTools = last?.role === 'assistant' && call.prompt[at + 1]?.role === 'tool'
  if (call.reasoning === undefined || !isUsingTools) return call
  return last.content.some(({ type }) => type === 'reasoning') ? call : { ...call, reasoning: 'none' }
}

/**
 * Sets four cache marks in the prompt (https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching). A request
 * reads the cache up to the last mark that an earlier request had at the same position, and writes it up to its own
 * marks. The mark after the tools and instructions helps every run, and the mark after the last results helps the next
 * step of the run. The other two marks are at the last two user messages, with which this run or cycle and the previous
 * cycle start. Up to the earlier one, the prompts of both cycles are equal.
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
