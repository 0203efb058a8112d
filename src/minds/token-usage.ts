import type { LanguageModelUsage } from 'ai'
import { estimateTokenCount } from 'tokenx'
import type { Usage } from '../runs/ledger.ts'

/** About how many tokens a value's text has, for budgets and where the provider says nothing. */
export function estimateTokens(value: unknown): number {
  return estimateTokenCount(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))
}

/** The provider's figures where there are any; else an estimate from what was sent and what came back, marked as one. */
export function usageOf(reported: LanguageModelUsage, sent: () => unknown[], received: () => unknown): Usage {
  const { inputTokens, outputTokens, inputTokenDetails } = reported
  if (!isFigure(inputTokens) || !isFigure(outputTokens)) return estimatedUsage(sent(), received())
  const cached = inputTokenDetails.cacheReadTokens
  const cachedInputTokens = isFigure(cached) ? Math.min(cached, inputTokens) : 0
  return { inputTokens, cachedInputTokens, outputTokens, estimated: false }
}

/** More than any model reads or writes at once is no figure. */
const MOST_TOKENS = 100_000_000

function isFigure(tokens: number | undefined): tokens is number {
  return Number.isInteger(tokens) && (tokens as number) >= 0 && (tokens as number) <= MOST_TOKENS
}

export function estimatedUsage(sent: unknown[], received: unknown): Usage {
  const inputTokens = sent.reduce((sum: number, part) => sum + estimateTokens(part), 0)
  return { inputTokens, cachedInputTokens: 0, outputTokens: estimateTokens(received), estimated: true }
}

/** What a run spends: every step's output, and of its input what exceeds the first step's. */
export function spentTokens(steps: { inputTokens: number; outputTokens: number }[]): number {
  const carried = steps[0]?.inputTokens ?? 0
  return steps.reduce((sum, step) => sum + step.outputTokens + Math.max(0, step.inputTokens - carried), 0)
}
