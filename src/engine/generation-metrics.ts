import { counter, histogram } from '../lib/metrics.ts'
import { costOf, usdOf } from '../lib/model-cost.ts'
import type { Platform } from '../platform/platform.ts'
import type { Usage } from '../stores/run-store.ts'

/** Prometheus metrics of the model calls of this process, including those in cycles that were rolled back. */
export interface GenerationMetrics {
  generated(model: string, usage: Usage): void
  /** Records the time until the model sent its first chunk. */
  answered(model: string, ms: number): void
  /** Records a think cycle that ended with `skip` and was rolled back. */
  skipped(usage: Pick<Usage, 'inputTokens' | 'outputTokens'>): void
}

const FIRST_CHUNK_SECONDS = [0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60]

export function createGenerationMetrics({ metrics, config }: Pick<Platform, 'metrics' | 'config'>): GenerationMetrics {
  const tokens = counter(
    metrics,
    'parley_tokens_total',
    'Tokens used by model calls of this process, by model and direction (input, output, and cached_input, which is part of input); estimated where the provider reported none.',
    ['model', 'direction'],
  )
  const cost = counter(
    metrics,
    'parley_cost_usd_total',
    'Cost of model calls of this process in USD, from PARLEY_PRICES, by model; models without a price are not counted.',
    ['model'],
  )
  const firstChunk = histogram(
    metrics,
    'parley_model_first_chunk_seconds',
    'Time from a model call to the first chunk of its response, by model.',
    { buckets: FIRST_CHUNK_SECONDS, labelNames: ['model'] },
  )
  const skippedCycles = counter(
    metrics,
    'parley_skipped_cycles_total',
    'Think cycles of this process that ended with skip before any action; their runs are deleted.',
  )
  const skippedTokens = counter(
    metrics,
    'parley_skipped_cycle_tokens_total',
    'Tokens used by skipped think cycles, by direction; also counted in parley_tokens_total.',
    ['direction'],
  )
  return {
    generated(model, usage) {
      tokens.inc({ model, direction: 'input' }, usage.inputTokens)
      tokens.inc({ model, direction: 'cached_input' }, usage.cachedInputTokens)
      tokens.inc({ model, direction: 'output' }, usage.outputTokens)
      const price = config.prices.get(model)
      if (price !== undefined) cost.inc({ model }, usdOf(costOf(price, usage)) ?? 0)
    },
    answered(model, ms) {
      firstChunk.observe({ model }, ms / 1000)
    },
    skipped({ inputTokens, outputTokens }) {
      skippedCycles.inc()
      skippedTokens.inc({ direction: 'input' }, inputTokens)
      skippedTokens.inc({ direction: 'output' }, outputTokens)
    },
  }
}
