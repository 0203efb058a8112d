import { usdOf } from '../lib/model-cost.ts'
import type { RunLogEvent } from '../realtime/topics.ts'
import type { JournaledStep } from '../runs/journal.ts'
import type { RunEvents } from '../runs/run-events.ts'

/**
 * Tells what the journal of a run that goes on has: who had it in hand, or settled a call of it, may have died before it was told.
 * What was told is not told again (`appending`). That the last step is over is left to who goes on with it.
 */
export function retell(events: Pick<RunEvents, 'emit'>, steps: JournaledStep[]): void {
  for (const step of steps) {
    for (const { id, settledAt } of step.calls) {
      events.emit({ type: 'RunToolCalled', toolCallId: id })
      if (settledAt !== null) events.emit({ type: 'RunToolReturned', toolCallId: id })
    }
    if (step !== steps.at(-1)) events.emit(stepFinished(step))
  }
}

/** To be told once the calls of a step are carried out, or wait. */
export function stepFinished({ step }: JournaledStep): RunLogEvent {
  const { index, inputTokens, cachedInputTokens, outputTokens, usageEstimated: estimated, costNanos } = step
  const tokens = { inputTokens, cachedInputTokens, outputTokens, totalTokens: inputTokens + outputTokens }
  return { type: 'RunStepFinished', step: index, usage: { estimated, ...tokens, costUsd: usdOf(costNanos) } }
}
