import type { JobKind } from './job.ts'

/** The queue of failed jobs, which pg-boss calls a dead letter queue. */
export const FAILED_JOBS = 'failed-jobs'

const DAY = 86_400
/** A claim expires if it is not renewed for this long. This is the minimum that pg-boss allows. */
const HEARTBEAT_SECONDS = 10

/** A kind of job without its input. */
export type Queue = Pick<JobKind<object>, 'name' | 'retry' | 'isOrdered' | 'everySeconds'>

/** Returns the options of a queue. pg-boss's type does not allow null for `heartbeatSeconds`. */
export function optionsOf({ retry, everySeconds }: Queue) {
  return {
    retryLimit: retry.limit,
    retryDelay: retry.delaySeconds,
    retryBackoff: true,
    retryDelayMax: retry.maxDelaySeconds,
    heartbeatSeconds: HEARTBEAT_SECONDS,
    // This is longer than any handler takes. Dead processes are detected earlier, because their heartbeats are missing.
    expireInSeconds: 600,
    retentionSeconds: 400 * DAY,
    // A completed periodic job is kept because it shows that its period is done.
    deleteAfterSeconds: Math.max(60, 2 * (everySeconds ?? 0)),
    deadLetter: FAILED_JOBS,
  }
}

export function policyOf({ isOrdered, everySeconds }: Queue): 'short' | 'exclusive' | 'key_strict_fifo' {
  if (everySeconds !== null) return 'exclusive'
  return isOrdered ? 'key_strict_fifo' : 'short'
}
