import type { ModelProviderSettings } from '../config.ts'
import { cut } from '../lib/json.ts'
import { listModels, type ModelList } from './model-list.ts'
import type { CalledModel } from './provider-test.ts'

/** Whether a model of a provider can be called now, and which models it has. */
export interface ProviderStatus {
  ready: boolean
  /** Why no model can be called, as a sentence; null if one can be. */
  notReadyReason: string | null
  models: string[]
}

const LONGEST_REASON = 500
const LIST_TIMEOUT_MS = 5000
const REACHED_FOR_MS = 60_000
/** How long a failure is cached. Short, because an admin may just have fixed it. */
const FAILED_FOR_MS = 5000

interface Checked {
  list: Promise<ModelList>
  /** The time until which the result is cached; Infinity while the request is in progress. */
  validUntil: number
}

/** Checks providers by requesting their lists of models. Results are cached by provider. */
export function createProviderChecks(redact: (text: string) => string) {
  const checked = new WeakMap<ModelProviderSettings, Checked>()
  /** The providers that have listed models to this process, or answered a test call. */
  const answered = new WeakSet<ModelProviderSettings>()
  /** By provider, the message with which it refused the key in a test call. Some providers list models for any key. */
  const refusals = new WeakMap<ModelProviderSettings, string>()

  function listOf(settings: ModelProviderSettings): Promise<ModelList> {
    const known = checked.get(settings)
    if (known !== undefined && known.validUntil > performance.now()) return known.list
    const list = listModels(settings, LIST_TIMEOUT_MS)
    const entry = { list, validUntil: Number.POSITIVE_INFINITY }
    checked.set(settings, entry)
    void list.then((result) => {
      // A provider that lists no models may be another server.
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
     * Whether new agents may get a model of the provider: it has answered, and its key was not refused. An outage does
     * not change the result.
     */
    async hasAnswered(settings: ModelProviderSettings): Promise<boolean> {
      if (settings.lacks !== null || refusals.has(settings)) return false
      const list = await listOf(settings)
      return answered.has(settings) && !(list.type === 'failed' && list.isKeyRefused)
    },
    /** Records the result of a test call, and drops the cached list. */
    tested(settings: ModelProviderSettings, { ok, text, isKeyRefused }: CalledModel): void {
      checked.delete(settings)
      if (ok) answered.add(settings)
      if (isKeyRefused) refusals.set(settings, text)
      else refusals.delete(settings)
    },
  }
}
