import type { LanguageModelUsage } from 'ai'
import { estimateTokens } from '../lib/token-estimate.ts'
import type { Usage } from '../stores/run-store.ts'

/**
 * Returns the usage that the provider reported. If it reported none, returns an estimate from the input and output,
 * marked as an estimate.
 */
export function usageOf(reported: LanguageModelUsage, sent: () => unknown[], received: () => unknown): Usage {
  const { inputTokens, outputTokens, inputTokenDetails, raw } = reported
  if (!isFigure(inputTokens) || !isFigure(outputTokens)) return estimatedUsage(sent(), received())
  const cached = inputTokenDetails.cacheReadTokens
  const cachedInputTokens = isFigure(cached) ? Math.min(cached, inputTokens) : 0
  return { inputTokens, cachedInputTokens, outputTokens, estimated: raw?.['parleyEstimate'] === true }
}

/** A number that is larger than any model can process is treated as missing. */
const MOST_TOKENS = 100_000_000

function isFigure(tokens: number | undefined): tokens is number {
  return Number.isInteger(tokens) && (tokens as number) >= 0 && (tokens as number) <= MOST_TOKENS
}

export function estimatedUsage(sent: unknown[], received: unknown): Usage {
  const inputTokens = sent.reduce((sum: number, part) => sum + estimateTokens(part), 0)
  return { inputTokens, cachedInputTokens: 0, outputTokens: estimateTokens(received), estimated: true }
}

/**
 * Returns the number of tokens that a run has spent. This is the output of every step, and the input beyond that of the
 * first step.
 */
export function spentTokens(steps: { inputTokens: number; outputTokens: number }[]): number {
  const carried = steps[0]?.inputTokens ?? 0
  return steps.reduce((sum, step) => sum + step.outputTokens + Math.max(0, step.inputTokens - carried), 0)
}
