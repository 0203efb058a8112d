import type { RunLogEvent } from '../broker/topics.ts'
import { usdOf } from '../lib/model-cost.ts'
import type { JournaledStep } from '../runs/journal.ts'
import type { RunEvents } from '../runs/run-events.ts'

/**
 * Publishes the events of a resumed run's journaled steps again, because the previous worker may have died before it
 * published them. The log drops duplicates. The caller publishes the end of the last step.
 */
export function republishSteps(events: Pick<RunEvents, 'emit'>, steps: JournaledStep[]): void {
  for (const step of steps) {
    for (const { id, settledAt } of step.calls) {
      events.emit({ type: 'RunToolCalled', toolCallId: id })
      if (settledAt !== null) events.emit({ type: 'RunToolReturned', toolCallId: id })
    }
    if (step !== steps.at(-1)) events.emit(stepFinished(step))
  }
}

/** Returns the event to publish when each call of a step has been executed or waits for a result. */
export function stepFinished({ step }: JournaledStep): RunLogEvent {
  const { index, inputTokens, cachedInputTokens, outputTokens, usageEstimated: estimated, costNanos } = step
  const tokens = { inputTokens, cachedInputTokens, outputTokens, totalTokens: inputTokens + outputTokens }
  return { type: 'RunStepFinished', step: index, usage: { estimated, ...tokens, costUsd: usdOf(costNanos) } }
}
