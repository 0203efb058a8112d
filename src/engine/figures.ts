import { Counter, type Registry } from 'prom-client'
import type { Usage } from '../runs/journal.ts'

/** What the runs of this process cost, for Prometheus: also of cycles of which nothing else is left. */
export interface Figures {
  generated(model: string, usage: Usage): void
  /** A think cycle ended with `skip`. */
  skipped(usage: Pick<Usage, 'inputTokens' | 'outputTokens'>): void
}

export function createFigures(registry: Registry): Figures {
  const tokens = new Counter({
    name: 'parley_tokens_total',
    help: 'Tokens of generations of this process, by model and direction (input, output, and cached_input, which is part of input); estimated where the provider gave none.',
    labelNames: ['model', 'direction'],
    registers: [registry],
  })
  const skippedCycles = new Counter({
    name: 'parley_skipped_cycles_total',
    help: 'Think cycles of this process that ended with skip.',
    registers: [registry],
  })
  const skippedTokens = new Counter({
    name: 'parley_skipped_cycle_tokens_total',
    help: 'Tokens of think cycles that ended with skip, by direction; also counted in parley_tokens_total.',
    labelNames: ['direction'],
    registers: [registry],
  })
  return {
    generated(model, { inputTokens, cachedInputTokens, outputTokens }) {
      tokens.inc({ model, direction: 'input' }, inputTokens)
      tokens.inc({ model, direction: 'cached_input' }, cachedInputTokens)
      tokens.inc({ model, direction: 'output' }, outputTokens)
    },
    skipped({ inputTokens, outputTokens }) {
      skippedCycles.inc()
      skippedTokens.inc({ direction: 'input' }, inputTokens)
      skippedTokens.inc({ direction: 'output' }, outputTokens)
    },
  }
}
