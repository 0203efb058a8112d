import { type LanguageModel, type LanguageModelMiddleware, wrapLanguageModel } from 'ai'
import type { CallOptions, LanguageModelV4 } from './language-model.ts'

/** Options of a model call that have different names for each provider, or that a provider does not support. */
export interface CallWishes {
  /** A key for the provider's prompt cache. Calls with the same key have a common prefix. */
  cacheKey: string
  serviceTier?: string
}

const KEY = 'parley'

/** Returns the options in a form that the SDK passes on to the model. A model ignores options that it does not know. */
export function wishing(wishes: CallWishes): NonNullable<CallOptions['providerOptions']> {
  return { [KEY]: { ...wishes } }
}

/** Wraps a model so that these options of each call are converted to the provider's own options. */
export function granting(
  model: LanguageModelV4,
  grant: (call: CallOptions, wishes: CallWishes) => CallOptions,
): LanguageModel {
  const middleware: LanguageModelMiddleware = {
    specificationVersion: 'v4',
    async transformParams({ params }) {
      const { [KEY]: wishes, ...providerOptions } = params.providerOptions ?? {}
      const call = { ...params, providerOptions }
      return wishes === undefined ? grant(call, { cacheKey: '' }) : grant(call, wishes as unknown as CallWishes)
    },
  }
  return wrapLanguageModel({ model, middleware })
}

/** Returns the call with additional options for one provider. */
export function withOptions(call: CallOptions, provider: string, options: Record<string, unknown>): CallOptions {
  const before = call.providerOptions ?? {}
  const merged = { ...before[provider], ...options } as NonNullable<CallOptions['providerOptions']>[string]
  return { ...call, providerOptions: { ...before, [provider]: merged } }
}
