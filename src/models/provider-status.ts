import type { ModelProviderSettings } from '../config.ts'
import { cut } from '../lib/json.ts'
import { listModels, type ModelList } from './model-list.ts'

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

  function listOf(settings: ModelProviderSettings): Promise<ModelList> {
    const known = checked.get(settings)
    if (known !== undefined && known.validUntil > performance.now()) return known.list
    const list = listModels(settings, LIST_TIMEOUT_MS)
    const entry = { list, validUntil: Number.POSITIVE_INFINITY }
    checked.set(settings, entry)
    void list.then(({ type }) => {
      entry.validUntil = performance.now() + (type === 'reached' ? REACHED_FOR_MS : FAILED_FOR_MS)
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
      if (restsUntil === null) return { ready: true, notReadyReason: null, models }
      const notReadyReason = `Five calls failed within a minute: until ${restsUntil.toISOString()}, agents with a fallback model skip this provider.`
      return { ready: false, notReadyReason, models }
    },
    /** Drops the cached result of a provider. */
    forget: (settings: ModelProviderSettings): void => void checked.delete(settings),
  }
}
