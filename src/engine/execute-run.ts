import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { onBehalfOf } from '../lib/log-context.ts'
import { isOutage } from '../platform/database-errors.ts'
import type { Platform } from '../platform/platform.ts'
import type { Claim } from '../runs/claiming.ts'
import { RunLostError } from '../runs/hold.ts'
import type { Leases } from '../runs/leases.ts'
import type { Lifecycle, RunEnding } from '../runs/lifecycle.ts'
import { type PerformEnd, type PerformParts, perform } from './perform.ts'

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
   * Executes a claimed run until it ends, pauses, or `handBack` aborts. Registers the lease
   * synchronously, before the first await. Never throws: on a database outage or an internal error
   * it releases the run, and another attempt resumes from the journal.
   */
  execute(claim: Claim, place: Place, handBack: AbortSignal): Promise<void>
}

const HAND_BACK_AGAIN_MS = 500

export function createExecutor(platform: Platform, parts: ExecutorParts): Executor {
  const { lifecycle, leases } = parts
  const { logger } = platform

  async function carryOut(claim: Claim, fresh: boolean, place: Place, signal: AbortSignal): Promise<void> {
    const standAside = async <T>(wait: Promise<T>): Promise<T> => {
      place.giveBack()
      return wait.finally(() => place.takeAgain())
    }
    const end = await perform(platform, parts, { claim, fresh, signal, standAside }).catch(ifLost)
    if (end.type === 'aborted') return
    if (end.type === 'finished' && end.isWritten === true) return lifecycle.completed(claim)
    if (end.type !== 'waiting') await bringToEnd(parts, claim, endingOf(end))
    else if (!(await lifecycle.pause(claim, end.callIds))) await carryOut(claim, false, place, signal)
  }

  /**
   * Releases the run, retrying while the database is away: no other worker can claim the run in the
   * meantime. Stops when `until` aborts.
   */
  async function giveBack(claim: Claim, error: unknown, until: AbortSignal): Promise<void> {
    logger.error(
      { runId: claim.run.id, error: messageOf(error) },
      'the run was interrupted by an error in this process; releasing it for another attempt',
    )
    const isBack = () =>
      lifecycle.handBack(claim, isOutage(error) ? 'outage' : 'fault').then(
        () => true,
        () => false,
      )
    while (!(await isBack()) && !until.aborted) await sleep(HAND_BACK_AGAIN_MS, until)
  }

  async function execute(claim: Claim, place: Place, handBack: AbortSignal): Promise<void> {
    const inHands = leases.take(claim)
    const signal = AbortSignal.any([inHands.signal, handBack])
    try {
      await lifecycle.announce(claim)
      await carryOut(claim, claim.attempt === 1, place, signal)
      if (handBack.aborted && !inHands.signal.aborted) await lifecycle.handBack(claim, 'handed-over')
    } catch (error) {
      // A stop that committed just before the last write: there is nothing to release, and the stop
      // signal is on its way.
      const isLost = inHands.signal.aborted || error instanceof RunLostError
      if (!isLost) await giveBack(claim, error, signal)
    } finally {
      inHands.letGo()
      if (inHands.signal.aborted) await lifecycle.stopSignals.confirm(claim.run.id)
    }
  }

  return {
    execute: (claim, place, handBack) => onBehalfOf(idsOf(claim), () => execute(claim, place, handBack)),
  }
}

const idsOf = ({ run }: Claim) => ({ runId: run.id, agentId: run.agentId })

async function bringToEnd({ lifecycle, observer }: ExecutorParts, claim: Claim, ending: RunEnding): Promise<void> {
  const ended = await lifecycle.end(claim, ending)
  if (ended?.isErased === true) observer.erased(claim)
}

function ifLost(error: unknown): PerformEnd {
  if (error instanceof RunLostError) return { type: 'aborted' }
  throw error
}

function endingOf(end: Exclude<PerformEnd, { type: 'waiting' | 'aborted' }>): RunEnding {
  if (end.type === 'finished') return { status: 'COMPLETED', stopReason: end.stopReason, summary: end.text }
  if (end.type === 'failed') return { status: 'FAILED', stopReason: 'MODEL_FAILED', error: end.error }
  if (end.type === 'over-budget') return { status: 'FAILED', stopReason: 'OVER_BUDGET', error: end.error }
  const { ending } = end
  const { reason } = ending
  if (ending.type === 'skip') return { status: 'COMPLETED', stopReason: 'SKIPPED', summary: null, skipped: { reason } }
  const { targetAgentId, spaceId } = ending
  return { status: 'CANCELED', stopReason: 'HANDED_ON', delegated: { targetAgentId, spaceId, reason } }
}
