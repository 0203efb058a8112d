import type { ModelProviderSettings } from '../config.ts'
import { cut } from '../lib/json.ts'
import { listModels, type ModelList } from './model-list.ts'
import type { CalledModel } from './provider-test.ts'

/** Whether the provider's models can be called now, and which models it has. */
export interface ProviderStatus {
  ready: boolean
  /** A sentence that says why no model can be called; null if models can be called. */
  notReadyReason: string | null
  models: string[]
}

const LONGEST_REASON = 500
const LIST_TIMEOUT_MS = 5000
const REACHED_FOR_MS = 60_000
/** How long a failure is cached. The time is short, because an admin may have just fixed the cause. */
const FAILED_FOR_MS = 5000

interface Checked {
  list: Promise<ModelList>
  /** When the cached result expires; Infinity while the request is in progress. */
  validUntil: number
}

/** Checks providers by requesting their lists of models. Caches the results by provider. */
export function createProviderChecks(redact: (text: string) => string) {
  const checked = new WeakMap<ModelProviderSettings, Checked>()
  /** The providers that have listed models or answered a test call in this process. */
  const answered = new WeakSet<ModelProviderSettings>()
  /**
   * The message with which a provider rejected its key in a test call, by provider. It is kept because some providers
   * list their models for any key.
   */
  const refusals = new WeakMap<ModelProviderSettings, string>()

  function listOf(settings: ModelProviderSettings): Promise<ModelList> {
    const known = checked.get(settings)
    if (known !== undefined && known.validUntil > performance.now()) return known.list
    const list = listModels(settings, LIST_TIMEOUT_MS)
    const entry = { list, validUntil: Number.POSITIVE_INFINITY }
    checked.set(settings, entry)
    void list.then((result) => {
      // A server that lists no models may not be the provider's.
      if (result.type === 'reached' && result.models.length > 0) answered.add(settings)
      entry.validUntil = performance.now() + (result.type === 'reached' ? REACHED_FOR_MS : FAILED_FOR_MS)
    })
    return list
  }

  return {
    async statusOf(settings: ModelProviderSettings, restsUntil: Date | null): Promise<ProviderStatus> {
      const { lacks } = settings
      if (lacks !== null) return { ready: false, notReadyReason: `The provider ${lacks}.`, models: [] }
      const list = await listOf(settings)
      if (list.type === 'failed')
        return { ready: false, notReadyReason: cut(redact(list.words), LONGEST_REASON), models: [] }
      const { models } = list
      const refusal = refusals.get(settings)
      if (refusal !== undefined) return { ready: false, notReadyReason: cut(redact(refusal), LONGEST_REASON), models }
      if (restsUntil === null) return { ready: true, notReadyReason: null, models }
      const notReadyReason = `Five calls failed within a minute: until ${restsUntil.toISOString()}, agents with a fallback model skip this provider.`
      return { ready: false, notReadyReason, models }
    },
    /**
     * Whether new agents can get a model of the provider, because it has answered and did not reject its key. An outage
     * does not change the result.
     */
    async hasAnswered(settings: ModelProviderSettings): Promise<boolean> {
      if (settings.lacks !== null || refusals.has(settings)) return false
      const list = await listOf(settings)
      return answered.has(settings) && !(list.type === 'failed' && list.isKeyRefused)
    },
    /** Records the result of a test call, and removes the cached list. */
    tested(settings: ModelProviderSettings, { ok, text, isKeyRefused }: CalledModel): void {
      checked.delete(settings)
      if (ok) answered.add(settings)
      if (isKeyRefused) refusals.set(settings, text)
      else refusals.delete(settings)
    },
  }
}
