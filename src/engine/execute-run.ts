import type { Lifecycle } from '../flows/lifecycle.ts'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { onBehalfOf } from '../lib/log-context.ts'
import { forRequester } from '../lib/requester-context.ts'
import { isOutage } from '../platform/database-errors.ts'
import type { Platform } from '../platform/platform.ts'
import { requesterOf } from '../rules/requester.ts'
import type { RunEnding } from '../rules/run-end.ts'
import type { Claim } from '../runs/claiming.ts'
import { RunLostError } from '../runs/hold.ts'
import type { Leases } from '../runs/leases.ts'
import type { RunExecution } from '../tools/run-context.ts'
import { type Performance, type PerformParts, perform } from './perform.ts'
import { createRunExecution } from './run-context.ts'
import { createRunBudget } from './spending.ts'
import type { PerformEnd } from './step-end.ts'

/** A run's slot in the concurrency limit of this process. */
export interface Place {
  giveBack(): void
  takeAgain(): void
}

export interface ExecutorParts extends PerformParts {
  lifecycle: Lifecycle
  leases: Leases
}

/** Executes claimed runs. */
export interface Executor {
  /**
   * Executes a claimed run until it ends or pauses, or until `handBack` aborts. Registers the lease synchronously,
   * before the first await. Never throws. After a database outage or an internal error, releases the run, and another
   * attempt resumes from the journal.
   */
  execute(claim: Claim, place: Place, handBack: AbortSignal): Promise<void>
}

const HAND_BACK_AGAIN_MS = 500

export function createExecutor(platform: Platform, parts: ExecutorParts): Executor {
  const { lifecycle, leases } = parts
  const { logger } = platform

  /** Performs a run until it ends or pauses. Continues if all calls of the run were answered before it could pause. */
  async function performUntilPause(performance: Performance): Promise<void> {
    const { run } = performance
    const end = await perform(platform, parts, performance).catch(ifLost)
    if (end.type === 'aborted') return
    if (end.type === 'finished' && end.isWritten === true) return lifecycle.publishCompleted(run.context)
    if (end.type !== 'waiting') await bringToEnd(parts, run, endingOf(end))
    else if (!(await lifecycle.pause(run.context, end.callIds)))
      await performUntilPause({ ...performance, fresh: false })
  }

  /**
   * Releases the run. Retries while the database is unavailable, because no other worker can claim the run until it is
   * released. Stops when `until` aborts.
   */
  async function giveBack(claim: Claim, error: unknown, until: AbortSignal): Promise<void> {
    const reason = isOutage(error) ? 'outage' : 'fault'
    const found = { runId: claim.run.id, error: messageOf(error) }
    if (reason === 'outage')
      logger.warn(found, 'the database failed or was too busy; releasing the run for another attempt')
    else logger.error(found, 'the run was interrupted by an error in this process; releasing it for another attempt')
    const isBack = () =>
      lifecycle.handBack(claim, reason).then(
        () => true,
        () => false,
      )
    while (!(await isBack()) && !until.aborted) await sleep(HAND_BACK_AGAIN_MS, until)
  }

  async function execute(claim: Claim, place: Place, handBack: AbortSignal): Promise<void> {
    const inHands = leases.take(claim)
    const signal = AbortSignal.any([inHands.signal, handBack])
    const run = createRunExecution(claim, { signal, standAside: standAsideOf(place) })
    const budget = createRunBudget(platform, run)
    try {
      await lifecycle.announce(claim)
      await performUntilPause({ run, budget, fresh: claim.attempt === 1 })
      if (handBack.aborted && !inHands.signal.aborted) await lifecycle.handBack(claim, 'handed-over')
    } catch (error) {
      // A lost run was stopped or now belongs to another attempt, so there is nothing to release.
      const isLost = inHands.signal.aborted || error instanceof RunLostError
      if (!isLost) await giveBack(claim, error, signal)
    } finally {
      inHands.letGo()
      budget.release()
      if (inHands.signal.aborted) await lifecycle.stopSignals.confirm(claim.run.id)
    }
  }

  return {
    execute: (claim, place, handBack) =>
      onBehalfOf(idsOf(claim), () =>
        forRequester(requesterOf(claim.run).id, () => execute(claim, place, handBack), { isRun: true }),
      ),
  }
}

const idsOf = ({ run }: Claim) => ({ runId: run.id, agentId: run.agentId })

/** Returns a function that frees the run's slot while it awaits a promise. */
function standAsideOf(place: Place): RunExecution['standAside'] {
  return async (wait) => {
    place.giveBack()
    return wait.finally(() => place.takeAgain())
  }
}

async function bringToEnd({ lifecycle, observer }: ExecutorParts, run: RunExecution, ending: RunEnding): Promise<void> {
  const ended = await lifecycle.end(run.context, ending)
  if (ended?.isErased === true) observer.erased(run)
}

function ifLost(error: unknown): PerformEnd {
  if (error instanceof RunLostError) return { type: 'aborted' }
  throw error
}

function endingOf(end: Exclude<PerformEnd, { type: 'waiting' | 'aborted' }>): RunEnding {
  if (end.type === 'finished') return { status: 'COMPLETED', stopReason: end.stopReason, summary: end.text }
  if (end.type === 'failed') return { status: 'FAILED', stopReason: 'MODEL_FAILED', error: end.error, fault: end.fault }
  if (end.type === 'over-budget') return { status: 'FAILED', stopReason: 'OVER_BUDGET', error: end.error }
  const { ending } = end
  const { reason } = ending
  if (ending.type === 'skip') return { status: 'COMPLETED', stopReason: 'SKIPPED', summary: null, skipped: { reason } }
  const { targetAgentId, spaceId } = ending
  return { status: 'CANCELED', stopReason: 'HANDED_ON', delegated: { targetAgentId, spaceId, reason } }
}
