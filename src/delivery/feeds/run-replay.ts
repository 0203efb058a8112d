// Rebuilds the events of a run from its journal, for subscribers that begin after the run's event log was lost.
import type { RunLogEvent } from '../../broker/topics.ts'
import type { Run } from '../../graphql/shapes.ts'
import { usdOf } from '../../lib/model-cost.ts'
import { errorForMembers } from '../../rules/run-end.ts'

/** The stored steps of a run. */
export interface RunJournal {
  read(runId: string): Promise<JournaledStep[]>
}

interface JournaledStep {
  step: {
    index: number
    startedAt: Date
    durationMs: number | null
    /** The assistant message of the AI SDK, with the model's text, reasoning and tool calls. */
    assistant: unknown
    inputTokens: number
    cachedInputTokens: number
    outputTokens: number
    usageEstimated: boolean
    costNanos: number | null
  }
  calls: { id: string; createdAt: Date; settledAt: Date | null }[]
}

/** An event that was rebuilt from the journal, with its original time. */
export interface ReplayedEvent {
  at: Date
  event: RunLogEvent
}

/**
 * Rebuilds the events of a run from its journal: the start, the text and reasoning of each step as one delta, the
 * tool calls, and the end event if the run has ended.
 */
export function replayOf(run: Run, steps: JournaledStep[]): ReplayedEvent[] {
  const began = run.startedAt === null ? [] : [{ at: run.startedAt, event: { type: 'RunStarted' as const } }]
  const end = endOf(run)
  return [...began, ...steps.flatMap(replayStep), ...(end === null ? [] : [end])]
}

/** Returns the end event of a run; null while it is active. */
export function endOf(run: Run): ReplayedEvent | null {
  const at = run.finishedAt ?? new Date(0)
  switch (run.status) {
    case 'COMPLETED':
      return { at, event: { type: 'RunCompleted' } }
    case 'FAILED':
      return { at, event: { type: 'RunFailed', error: errorForMembers(run) ?? '' } }
    case 'CANCELED':
      return { at, event: { type: 'RunCanceled' } }
    default:
      return null
  }
}

function replayStep({ step, calls }: JournaledStep): ReplayedEvent[] {
  const { index, inputTokens, cachedInputTokens, outputTokens, usageEstimated: estimated, startedAt, durationMs } = step
  const tokens = { inputTokens, cachedInputTokens, outputTokens, totalTokens: inputTokens + outputTokens }
  const usage = { estimated, ...tokens, costUsd: usdOf(step.costNanos) }
  const finishedAt = new Date(startedAt.getTime() + (durationMs ?? 0))
  const finished = { at: finishedAt, event: { type: 'RunStepFinished' as const, step: index, usage } }
  const deltas = deltasOf(step).map((event) => ({ at: startedAt, event }))
  const isOver = calls.every(({ settledAt }) => settledAt !== null)
  return [...deltas, ...calls.flatMap(replayCall), ...(isOver ? [finished] : [])]
}

/** Returns the events for the model's reasoning and text. */
function deltasOf({ index: step, assistant }: JournaledStep['step']): RunLogEvent[] {
  const { content } = assistant as { content: string | { type: string; text?: string }[] }
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content
  const join = (type: string) => parts.map((part) => (part.type === type ? (part.text ?? '') : '')).join('')
  const [reasoning, text] = [join('reasoning'), join('text')]
  return [
    ...(reasoning === '' ? [] : [{ type: 'RunReasoningDelta' as const, step, delta: reasoning }]),
    ...(text === '' ? [] : [{ type: 'RunTextDelta' as const, step, delta: text }]),
  ]
}

function replayCall({ id: toolCallId, createdAt, settledAt }: JournaledStep['calls'][number]): ReplayedEvent[] {
  const called = { at: createdAt, event: { type: 'RunToolCalled' as const, toolCallId } }
  if (settledAt === null) return [called]
  return [called, { at: settledAt, event: { type: 'RunToolReturned' as const, toolCallId } }]
}
