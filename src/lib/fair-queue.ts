import { RateLimitedError } from './errors.ts'

/** The requester of work in a queue that several requesters share. */
export interface Requester {
  /** A viewer's id; for an agent's work, the id of the requester of its run. */
  id: string
  /** If true, its tasks always wait; otherwise a task above `mostWaiting` is refused. */
  isPatient: boolean
}

/** Runs tasks one at a time. Requesters take turns, and the tasks of one requester run in the order of the calls. */
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
}

const RETRY_AFTER_MS = 1000

interface Waiting {
  isPatient: boolean
  /** Resolves when the task has ended; never rejects. */
  start(): Promise<void>
}

export function createFairQueue({ mostWaiting, refusal }: FairQueueOptions): FairQueue {
  /** Requesters with waiting tasks, in the order in which they are served. */
  const lines = new Map<string, Waiting[]>()
  let isServing = false

  async function serve(): Promise<void> {
    isServing = true
    for (let next = lines.entries().next(); next.done !== true; next = lines.entries().next()) {
      const [id, line] = next.value
      const first = line.shift()
      // Deleting and setting moves the requester behind the others.
      lines.delete(id)
      if (line.length > 0) lines.set(id, line)
      await first?.start()
    }
    isServing = false
  }

  return {
    async run({ id, isPatient }, task) {
      const line = lines.get(id) ?? []
      const isFull = !isPatient && line.filter((waiting) => !waiting.isPatient).length >= mostWaiting
      if (isFull) throw new RateLimitedError(refusal, RETRY_AFTER_MS)
      return new Promise((resolve, reject) => {
        line.push({ isPatient, start: () => Promise.resolve().then(task).then(resolve, reject) })
        lines.set(id, line)
        if (!isServing) void serve()
      })
    },
  }
}
