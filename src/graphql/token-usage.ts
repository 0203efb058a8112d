import { usdOf } from '../lib/model-cost.ts'
import { TokenUsage } from './refs.ts'
import type * as shapes from './shapes.ts'

TokenUsage.implement({
  description: 'Tokens that models used, and their cost.',
  fields: (t) => ({
    estimated: t.exposeBoolean('estimated', {
      description: 'True if the provider reported no usage and the server estimated it.',
    }),
    inputTokens: t.exposeInt('inputTokens'),
    cachedInputTokens: t.int({
      description: 'Included in `inputTokens`.',
      resolve: ({ cachedInputTokens = 0 }) => cachedInputTokens,
    }),
    outputTokens: t.exposeInt('outputTokens'),
    costUsd: t.float({
      nullable: true,
      description: 'Computed with `PARLEY_PRICES`. Null if the price of a model is not known.',
      resolve: ({ costUsd = null }) => costUsd,
    }),
    totalTokens: t.int({ resolve: ({ inputTokens, outputTokens }) => inputTokens + outputTokens }),
  }),
})

/** Converts the usage columns of a run or a step to the API's type. */
export function usageOf(row: UsageRow): shapes.Usage {
  const { inputTokens, cachedInputTokens, outputTokens, usageEstimated: estimated } = row
  return { inputTokens, cachedInputTokens, outputTokens, estimated, costUsd: usdOf(row.costNanos) }
}

interface UsageRow extends Omit<shapes.Usage, 'estimated' | 'costUsd'> {
  usageEstimated: boolean
  costNanos: number | null
}
