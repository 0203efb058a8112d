import { createCounts } from './counts.ts'
import { RateLimitedError } from './errors.ts'
import { createFairTurns } from './fair-turns.ts'

/** The requester of work in a queue that several requesters share. */
export interface Requester {
  /** A viewer's id; for an agent's work, the id of the requester of its run. */
  id: string
  /** If true, its tasks always wait; otherwise a task above `mostWaiting` is refused. */
  isPatient: boolean
}

/**
 * Runs tasks one at a time. The requester whose tasks have recently taken the least time is next, and the tasks of one requester
 * run in the order of the calls.
 */
export interface FairQueue {
  /**
   * Returns the result of the task.
   * @throws RateLimitedError if too many tasks of the requester wait and it is not patient, or the error of the task
   */
  run<T>(requester: Requester, task: () => Promise<T>): Promise<T>
}

export interface FairQueueOptions {
  /** The maximum number of waiting tasks of one requester, not counting patient requesters. */
  mostWaiting: number
  /** The message of the error for a refused requester. */
  refusal: string
  /** Monotonic time in ms; `performance.now` by default. */
  now?: () => number
}

const RETRY_AFTER_MS = 1000

export function createFairQueue({ mostWaiting, refusal, now = () => performance.now() }: FairQueueOptions): FairQueue {
  const turns = createFairTurns({ places: () => 1, now })
  /** The numbers of waiting tasks of impatient requesters. */
  const waiting = createCounts()

  /** Waits for a turn. Returns the function that ends it. */
  async function turnOf({ id, isPatient }: Requester): Promise<() => void> {
    const end = turns.takeNow(id)
    if (end !== null) return end
    if (isPatient) return turns.take(id)
    if (waiting.of(id) >= mostWaiting) throw new RateLimitedError(refusal, RETRY_AFTER_MS)
    waiting.add(id, 1)
    try {
      return await turns.take(id)
    } finally {
      waiting.add(id, -1)
    }
  }

  return {
    async run(requester, task) {
      const end = await turnOf(requester)
      try {
        return await task()
      } finally {
        end()
      }
    },
  }
}
