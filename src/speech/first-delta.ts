import { histogram } from '../lib/metrics.ts'
import type { Platform } from '../platform/platform.ts'
import type { Claim } from '../runs/lifecycle.ts'

const SECONDS = [0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 300]

/**
 * Returns a function to call with each delta of a run; the first call measures the time since the
 * run was queued. Ignores runs that did not start here.
 */
export function createFirstDelta({ metrics, clock }: Platform, { run, kind }: Claim): () => void {
  const seconds = histogram(
    metrics,
    'parley_first_delta_seconds',
    'Time from queueing a run to publishing its first text delta in a space.',
    { buckets: SECONDS },
  )
  let isAwaited = kind === 'started'
  return () => {
    if (!isAwaited) return
    isAwaited = false
    seconds.observe(Math.max(0, clock.now() - run.queuedAt.getTime()) / 1000)
  }
}
