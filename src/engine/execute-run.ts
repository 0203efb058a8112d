import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { isOutage } from '../platform/database-errors.ts'
import type { Platform } from '../platform/platform.ts'
import { type Claim, type Lifecycle, outOfTime, type RunEnding } from '../runs/lifecycle.ts'
import { RunLostError } from '../spaces/posting.ts'
import { type PerformEnd, type PerformParts, perform } from './perform.ts'

/** Why a run's signal aborted. */
export type AbortReason = 'stopped' | 'out-of-time' | 'handed-back'

/** The place that a run takes among those that this process executes at a time. */
export interface Place {
  giveBack(): void
  takeAgain(): void
}

export interface ExecutorParts extends PerformParts {
  lifecycle: Lifecycle
}

/** Executes claimed runs. */
export interface Executor {
  /**
   * Takes a claimed run to its end, its next pause, or until `signal` aborts it with an AbortReason. Never throws: a fault of
   * the database, or of ours, leaves the run to be taken up again, from its journal; one that stays ends it the third time.
   * @returns `handed-back` when the run is still RUNNING and another worker must take it up; else `done`.
   */
  execute(claim: Claim, place: Place, signal: AbortSignal): Promise<'done' | 'handed-back'>
}

export function createExecutor(platform: Platform, parts: ExecutorParts): Executor {
  const { lifecycle } = parts
  const { stopSignals } = lifecycle
  const { logger, config } = platform

  async function carryOut(claim: Claim, fresh: boolean, place: Place, signal: AbortSignal): Promise<void> {
    const standAside = async <T>(wait: Promise<T>): Promise<T> => {
      place.giveBack()
      return wait.finally(() => place.takeAgain())
    }
    const end = await perform(platform, parts, { claim, fresh, signal, standAside }).catch(ifLost)
    if (end.type === 'aborted') return
    if (end.type !== 'waiting') await lifecycle.end(claim, endingOf(end))
    else if (!(await lifecycle.pause(claim, end.callIds))) await carryOut(claim, false, place, signal)
  }

  /** The database's fault is not the run's. Given up when the lease has lapsed: then somebody else has the run. */
  async function handBackAfterOutage(claim: Claim): Promise<void> {
    for (let tries = 0; tries < 20; tries++) {
      const isBack = await lifecycle.handBack(claim).then(
        () => true,
        () => false,
      )
      if (isBack) return
      await sleep(500)
    }
  }

  return {
    async execute(claim, place, outer) {
      const { run } = claim
      const abort = new AbortController()
      const signal = AbortSignal.any([outer, abort.signal])
      const unlisten = await stopSignals.listen(run.id, () => abort.abort('stopped' satisfies AbortReason))
      const left = (run.startedAt?.getTime() ?? Date.now()) + config.limits.maxRunSeconds * 1000 - Date.now()
      const timer = setTimeout(() => abort.abort('out-of-time' satisfies AbortReason), Math.max(0, left))
      try {
        await carryOut(claim, claim.attempt === 1, place, signal)
        if (signal.reason === 'out-of-time') {
          await lifecycle.end(claim, { status: 'FAILED', error: outOfTime(config.limits.maxRunSeconds) })
        }
        if (signal.reason !== 'handed-back') return 'done'
        await lifecycle.handBack(claim)
        return 'handed-back'
      } catch (error) {
        logger.error({ runId: run.id, error: messageOf(error) }, 'a run broke off here and is taken up again')
        if (isOutage(error)) await handBackAfterOutage(claim)
        return 'handed-back'
      } finally {
        clearTimeout(timer)
        unlisten()
        if (signal.reason === 'stopped') await stopSignals.confirm(run.id)
      }
    },
  }
}

function ifLost(error: unknown): PerformEnd {
  if (error instanceof RunLostError) return { type: 'aborted' }
  throw error
}

function endingOf(end: Exclude<PerformEnd, { type: 'waiting' | 'aborted' }>): RunEnding {
  if (end.type === 'finished') return { status: 'COMPLETED', summary: end.text }
  if (end.type === 'failed') return { status: 'FAILED', error: end.error }
  const { ending } = end
  if (ending.type === 'skip') return { status: 'COMPLETED', summary: null, skipped: { reason: ending.reason } }
  return { status: 'CANCELED', delegated: { targetAgentId: ending.targetAgentId, reason: ending.reason } }
}
