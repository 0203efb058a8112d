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
    totalTokens: t.int({ resolve: ({ inputTokens, outputTokens }) => inputTokens + outputTokens }),
  }),
})

/** The usage of a run or a step, as its row holds it. */
export function usageOf(row: Omit<shapes.Usage, 'estimated'> & { usageEstimated: boolean }): shapes.Usage {
  const { inputTokens, cachedInputTokens, outputTokens, usageEstimated: estimated } = row
  return { inputTokens, cachedInputTokens, outputTokens, estimated }
}
