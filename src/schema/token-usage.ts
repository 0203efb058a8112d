import { usdOf } from '../lib/model-cost.ts'
import { TokenUsage } from './refs.ts'
import type * as shapes from './shapes.ts'

TokenUsage.implement({
  fields: (t) => ({
    estimated: t.exposeBoolean('estimated', {
      description: 'True where the provider gave no figures and they were estimated.',
    }),
    inputTokens: t.exposeInt('inputTokens'),
    cachedInputTokens: t.int({
      description: 'Of `inputTokens`.',
      resolve: ({ cachedInputTokens = 0 }) => cachedInputTokens,
    }),
    outputTokens: t.exposeInt('outputTokens'),
    costUsd: t.float({
      nullable: true,
      description: 'By `PARLEY_PRICES`; null where a model has no known price.',
      resolve: ({ costUsd = null }) => costUsd,
    }),
    totalTokens: t.int({ resolve: ({ inputTokens, outputTokens }) => inputTokens + outputTokens }),
  }),
})

/** The usage of a run or a step, as its row holds it. */
export function usageOf(row: UsageRow): shapes.Usage {
  const { inputTokens, cachedInputTokens, outputTokens, usageEstimated: estimated } = row
  return { inputTokens, cachedInputTokens, outputTokens, estimated, costUsd: usdOf(row.costNanos) }
}

interface UsageRow extends Omit<shapes.Usage, 'estimated' | 'costUsd'> {
  usageEstimated: boolean
  costNanos: number | null
}
