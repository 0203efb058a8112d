import { type LanguageModel, type LanguageModelMiddleware, wrapLanguageModel } from 'ai'
import type { CallOptions, LanguageModelV4 } from './language-model.ts'

/** What a call asks for that every provider has words of its own for, or none. */
export interface CallWishes {
  /** Calls that share it begin alike. */
  cacheKey: string
  serviceTier?: string
}

const KEY = 'parley'

/** The wishes as the SDK passes them on: a model that does not know them leaves them aside. */
export function wishing(wishes: CallWishes): NonNullable<CallOptions['providerOptions']> {
  return { [KEY]: { ...wishes } }
}

/** The model, called in its provider's words. */
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

/** The call with more options of one provider's. */
export function withOptions(call: CallOptions, provider: string, options: Record<string, unknown>): CallOptions {
  const before = call.providerOptions ?? {}
  const merged = { ...before[provider], ...options } as NonNullable<CallOptions['providerOptions']>[string]
  return { ...call, providerOptions: { ...before, [provider]: merged } }
}
