import type { ModelProviderSettings } from '../config.ts'
import { type Embedder, EmbeddingRefusedError } from '../lib/embedder.ts'
import { counter } from '../lib/metrics.ts'
import type { ModelFault } from '../lib/model-fault.ts'
import { parseModelName } from '../lib/model-name.ts'
import type { Platform } from '../platform/platform.ts'
import { modelFetch } from './model-fetch.ts'
import { NO_KEY, type ProviderSettings } from './provider.ts'
import { readProviderError } from './provider-error.ts'

/** An embedding model of the AI SDK. The type is derived, because its own package is only a transitive dependency. */
type EmbeddingModel = ReturnType<ReturnType<typeof import('@ai-sdk/openai')['createOpenAI']>['embeddingModel']>

const NAMESPACE = 'compatible'

/** The packages by API. Anthropic has no embedding models. The check of the settings reports this. */
const PACKAGES: Record<string, (settings: ProviderSettings, modelId: string) => Promise<EmbeddingModel>> = {
  async '@ai-sdk/openai'({ baseUrl, apiKey, headers }, modelId) {
    const { createOpenAI } = await import('@ai-sdk/openai')
    const baseURL = baseUrl ?? 'https://api.openai.com/v1'
    return createOpenAI({ baseURL, apiKey: apiKey ?? NO_KEY, headers, fetch: modelFetch }).embeddingModel(modelId)
  },
  async '@ai-sdk/openai-compatible'({ baseUrl, apiKey, headers }, modelId) {
    const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
    const key = apiKey === null ? {} : { apiKey }
    const settings = { name: NAMESPACE, baseURL: baseUrl ?? '', ...key, headers, fetch: modelFetch }
    return createOpenAICompatible(settings).embeddingModel(modelId)
  },
  async '@ai-sdk/google'({ baseUrl, apiKey, headers }, modelId) {
    const { createGoogle } = await import('@ai-sdk/google')
    const baseURL = baseUrl ?? 'https://generativelanguage.googleapis.com/v1beta'
    return createGoogle({ baseURL, apiKey: apiKey ?? NO_KEY, headers, fetch: modelFetch }).embeddingModel(modelId)
  },
}

const REFUSALS: readonly ModelFault[] = ['REFUSED', 'TOO_LONG', 'FILTERED']

/**
 * Creates the embedder for the model that PARLEY_EMBEDDINGS selects. Its provider must be configured in the
 * environment. Loads the provider's package on first use. `redact` removes secrets from messages of providers.
 */
export function createEmbedder(
  { metrics }: Pick<Platform, 'metrics'>,
  { model: name, providers, redact }: EmbedderParts,
): Embedder {
  const { provider, modelId } = parseModelName(name) ?? { provider: '', modelId: '' }
  const settings = providers.find((one) => one.name === provider)
  let opened: Promise<EmbeddingModel> | null = null
  const tokens = counter(
    metrics,
    'parley_embedding_tokens_total',
    'Tokens that the provider of PARLEY_EMBEDDINGS counted in requests of this process.',
  )

  async function open(): Promise<EmbeddingModel> {
    const create = PACKAGES[settings?.package ?? '']
    if (settings === undefined || create === undefined) throw new Error(`There is no embedding model "${name}".`)
    opened ??= create(settings, modelId)
    opened.catch(() => {
      opened = null
    })
    return opened
  }

  return {
    model: name,
    async embed(texts, abortSignal) {
      try {
        const model = await open()
        const { embeddings, usage } = await model.doEmbed({ values: [...texts], abortSignal })
        tokens.inc(usage?.tokens ?? 0)
        if (embeddings.length !== texts.length || embeddings.some((vector) => !isVector(vector)))
          throw new Error('The provider did not return exactly one vector for each text.')
        return embeddings
      } catch (error) {
        const { words, fault } = readProviderError(error)
        if (REFUSALS.includes(fault)) throw new EmbeddingRefusedError(redact(words))
        throw new Error(redact(words))
      }
    },
  }
}

interface EmbedderParts {
  /** The value of PARLEY_EMBEDDINGS. */
  model: string
  providers: readonly ModelProviderSettings[]
  redact: (text: string) => string
}

const isVector = (vector: readonly number[]) => vector.length > 0 && vector.every(Number.isFinite)
