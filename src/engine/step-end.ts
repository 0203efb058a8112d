import { maxToolCallsOf } from '../agents/agent-settings.ts'
import type { Mind } from '../context/mind.ts'
import type { SceneAgent } from '../context/scene.ts'
import { spentTokens } from '../context/token-usage.ts'
import type { ModelFault } from '../lib/model-fault.ts'
import type { Blame, Completion, RunEnding } from '../rules/run-end.ts'
import { closingWords } from '../runs/conversation.ts'
import type { JournaledStep } from '../runs/journal.ts'
import type { RequestedEnding } from '../tools/run-context.ts'

type FinishReason = Exclude<Extract<RunEnding, { status: 'COMPLETED' }>['stopReason'], 'SKIPPED'>

/** How an attempt of a run ended. */
export type PerformEnd =
  /**
   * The model has finished, or a limit is reached. `text` is the closing text. `isWritten` says that the end was
   * written together with the last step.
   */
  | { type: 'finished'; stopReason: FinishReason; text: string | null; isWritten?: true }
  /** A tool requested this end. */
  | { type: 'ending'; ending: RequestedEnding }
  /** Calls wait for a result or decision from outside the run. */
  | { type: 'waiting'; callIds: string[] }
  /** The model failed. `model` is the model that was called last. */
  | { type: 'failed'; error: string; blame: Blame; fault: ModelFault; model: string }
  /** A budget is exhausted, or it excludes every model of the agent. */
  | { type: 'over-budget'; error: string }
  /** The run's signal was aborted. */
  | { type: 'aborted' }

/**
 * Returns how the run ends after these steps; null if the model is called again. All calls of the steps must have
 * results.
 */
export function endAfter(
  steps: readonly JournaledStep[],
  { agent, mind, ending }: { agent: SceneAgent; mind: Pick<Mind, 'isDone'>; ending: RequestedEnding | null },
): PerformEnd | null {
  const last = steps.at(-1)
  if (last === undefined) return null
  if (ending !== null) return { type: 'ending', ending }
  const failure = failureIn(last)
  if (failure !== null) return failure
  const stopReason = stopReasonAfter(steps, agent, mind)
  return stopReason === null ? null : { type: 'finished', stopReason, text: closingWords(last) }
}

/** Returns why a run stops after a successful step; null if it continues. */
function stopReasonAfter(
  steps: readonly JournaledStep[],
  agent: SceneAgent,
  mind: Pick<Mind, 'isDone'>,
): FinishReason | null {
  if (steps.at(-1)?.calls.length === 0) return 'FINISHED'
  if (mind.isDone(steps)) return 'ALL_ANSWERED'
  if (callsIn(steps) >= maxToolCallsOf(agent)) return 'MAX_TOOL_CALLS'
  if (steps.length >= agent.maxSteps) return 'MAX_STEPS'
  const isSpent = agent.tokenBudget !== null && spentTokens(steps.map(({ step }) => step)) > agent.tokenBudget
  return isSpent ? 'TOKEN_BUDGET' : null
}

export const callsIn = (steps: readonly JournaledStep[]): number =>
  steps.reduce((sum, { calls }) => sum + calls.length, 0)

/** Returns the failure of the run if the step's generation was cut off; otherwise null. */
export function failureIn(last: JournaledStep): Extract<PerformEnd, { type: 'failed' }> | null {
  const failure = faultIn(last)
  return failure === null ? null : { type: 'failed', model: last.step.model, ...failure }
}

function faultIn({
  step,
  calls,
}: JournaledStep): Omit<Extract<PerformEnd, { type: 'failed' }>, 'type' | 'model'> | null {
  switch (step.finishReason) {
    case 'content-filter':
      return {
        error: "The provider's content filter stopped the model.",
        blame: 'prompt',
        fault: 'FILTERED',
      }
    case 'interrupted':
      return failedWith("The model's stream ended in the middle of its answer.")
    case 'error':
      return failedWith('The model ended with an error.')
    case 'length': {
      if (calls.length === 0) return null
      const error = 'The model reached its output limit in the middle of a tool call.'
      return { error, blame: 'limit', fault: 'LIMIT' }
    }
    default:
      return null
  }
}

const failedWith = (error: string) => ({ error, blame: 'unclear' as const, fault: 'BROKEN_OFF' as const })

/** Returns the completion of a run whose last step made no calls. */
export function completionAfter(step: JournaledStep): Completion & { stopReason: 'FINISHED' } {
  return { status: 'COMPLETED', stopReason: 'FINISHED', summary: closingWords(step) }
}
