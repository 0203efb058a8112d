import { BUDGETS_CHANNEL } from '../broker/topics.ts'
import type { ModelPrices } from '../config.ts'
import type { StepPlan } from '../context/mind.ts'
import { createBell, createLines } from '../lib/async.ts'
import { type OverBudget, WHY_OVER_BUDGET } from '../lib/budget.ts'
import { costOf } from '../lib/model-cost.ts'
import { estimateTokens } from '../lib/token-estimate.ts'
import { type BudgetState, type Estimate, type Reservation, reserve } from '../platform/budget-state.ts'
import type { Platform } from '../platform/platform.ts'
import type { Claim } from '../runs/claiming.ts'
import type { JournaledStep } from '../runs/journal.ts'
import type { RunExecution } from '../tools/run-context.ts'
import type { Tool } from '../tools/tool.ts'

/**
 * Limits a plan to its budgets. Returns an error if a budget is exhausted. If a budget is in USD, keeps only models
 * with a known price.
 */
export function affordable(
  plan: StepPlan,
  budget: BudgetState | null,
  prices: ModelPrices,
): StepPlan | { error: string } {
  if (budget === null) return plan
  if (budget.over !== null) return { error: WHY_OVER_BUDGET[budget.over] }
  if (!budget.inUsd) return plan
  const [first, ...others] = plan.models.filter((name) => prices.has(name))
  if (first !== undefined) return { ...plan, models: [first, ...others] }
  return { error: `A budget in USD applies, but ${plan.models.join(', ')} has no price: set it in PARLEY_PRICES.` }
}

/**
 * The number of output tokens to reserve if the agent's settings have no limit. A higher number would delay runs when
 * little budget is left. A lower number would let runs exceed the budget.
 */
const OUTPUT_TOKENS = 8192

/** Estimates the maximum usage of a generation at the price of the most expensive model. */
export function estimatedSpending(
  { instructions, messages, models, modelSettings, activeTools }: StepPlan,
  { tools, steps, prices }: { tools: ReadonlyMap<string, Tool>; steps: readonly JournaledStep[]; prices: ModelPrices },
): Estimate {
  const offered = activeTools.map((name) => {
    const { description, inputSchema } = tools.get(name) ?? {}
    return { name, description, inputSchema }
  })
  const sent = [instructions, messages, offered].reduce((sum: number, part) => sum + estimateTokens(part), 0)
  const inputTokens = Math.max(sent, steps.at(-1)?.step.inputTokens ?? 0)
  const outputTokens = modelSettings.maxOutputTokens ?? OUTPUT_TOKENS
  const costs = models.map((name) => {
    const price = prices.get(name)
    return price === undefined ? 0 : costOf(price, { inputTokens, cachedInputTokens: 0, outputTokens })
  })
  return { tokens: inputTokens + outputTokens, nanos: Math.max(...costs) }
}

/**
 * The maximum pause between two attempts of a waiting run. A reservation can also end without a signal, with the lease
 * of a dead worker.
 */
const LONGEST_PAUSE_MS = 2000

/** Lets the runs of this process that wait for the same budget retry one at a time. */
const waiting = createLines()

/** The budget of one attempt of a run. */
export interface RunBudget {
  /**
   * Reserves budget for the next generation. If this and other runs' reservations together could exceed the budget,
   * waits until enough of those have ended. The run does not occupy its slot while it waits. The call fails only if
   * actual usage has exhausted the budget.
   * @returns why the run may no longer call a model; null if it may call one, or if its signal was aborted
   */
  reserve(estimate: Estimate): Promise<string | null>
  /** If this attempt had a reservation, wakes the runs in all processes that wait for the same budget. */
  release(): void
}

export function createRunBudget(
  { db, signals }: Pick<Platform, 'db' | 'signals'>,
  run: Omit<RunExecution, 'apply'>,
): RunBudget {
  const { signal } = run
  let isHeld = false

  const attempt = (estimate: Estimate) => reserve(db.prisma, runOf(run.context), estimate)

  /**
   * Tries to reserve until the result is final. Waits before each further try for a signal that a reservation has
   * ended.
   */
  async function attemptUntilSettled(estimate: Estimate): Promise<Reservation> {
    const released = createBell()
    const listening = signals.subscribe(BUDGETS_CHANNEL, released.ring)
    try {
      for (;;) {
        if (signal.aborted) return { type: 'lost' }
        const last = await attempt(estimate)
        if (last.type !== 'waits') return last
        await released.wait(LONGEST_PAUSE_MS, signal)
      }
    } finally {
      // The subscription is not awaited, because it stays pending while Redis is unreachable.
      void listening.then(
        (leave) => leave(),
        () => {},
      )
    }
  }

  return {
    async reserve(estimate) {
      let last = await attempt(estimate)
      while (last.type === 'waits' && !signal.aborted) {
        const key = lineOf(last.whose, run.context)
        last = await run.standAside(waiting(key, () => attemptUntilSettled(estimate)))
      }
      isHeld ||= last.type === 'reserved'
      return last.type === 'over' ? WHY_OVER_BUDGET[last.whose] : null
    },
    release() {
      if (!isHeld) return
      isHeld = false
      void signals.publish(BUDGETS_CHANNEL, { type: 'budget-released' })
    },
  }
}

const runOf = ({ run: { id }, attempt }: Claim) => ({ id, attempt })

function lineOf(
  whose: OverBudget,
  { run: { agentId, deepestSpaceId, triggerSpaceId, rootId, askers } }: Claim,
): string {
  const ids = { AGENT: agentId, SPACE: deepestSpaceId ?? triggerSpaceId ?? '', HUMAN: askers.join(' '), ROOT: rootId }
  return `${whose} ${ids[whose]}`
}
