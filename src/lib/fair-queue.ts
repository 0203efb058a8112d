import { createCounts } from './counts.ts'
import { RateLimitedError } from './errors.ts'
import { createFairTurns } from './fair-turns.ts'

/** A requester that shares a queue with others. */
export interface Requester {
  /** A viewer's id. For an agent's work, the id of the requester of the agent's run. */
  id: string
  /** Whether tasks of the requester always wait. If false, tasks beyond `mostWaiting` are refused. */
  isPatient: boolean
}

/**
 * Runs tasks one at a time. The next task is from the requester whose tasks have recently taken the least time. Tasks
 * of the same requester run in the order of the calls.
 */
export interface FairQueue {
  /**
   * Returns the result of the task.
   * @throws RateLimitedError if the requester is not patient and too many of its tasks are waiting; any error that the
   * task throws
   */
  run<T>(requester: Requester, task: () => Promise<T>): Promise<T>
}

export interface FairQueueOptions {
  /** How many tasks of one requester may wait, unless the requester is patient. */
  mostWaiting: number
  /** The message of the error for a refused requester. */
  refusal: string
  /** Returns a monotonic time in ms. The default is `performance.now`. */
  now?: () => number
}

const RETRY_AFTER_MS = 1000

export function createFairQueue({ mostWaiting, refusal, now = () => performance.now() }: FairQueueOptions): FairQueue {
  const turns = createFairTurns({ places: () => 1, now })
  /** The number of waiting tasks of each requester that is not patient. */
  const waiting = createCounts()

  /** Waits for the requester's turn. Returns the function that ends the turn. */
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
