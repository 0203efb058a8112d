import { RateLimitedError } from '../../lib/errors.ts'

/** Limits concurrent operations by their weight, which is the number of fields that they may return. */
export interface Work {
  /**
   * Waits until the limits allow the operation to start. Returns a function to call when the operation has ended.
   * Waiting operations start round-robin by viewer, and each viewer's operations start in order.
   * @throws RateLimitedError if the wait would be too long; the signal's reason if the signal aborts
   */
  begin(viewerId: string, weight: number, signal?: AbortSignal): Promise<() => void>
}

export interface WorkOptions {
  /**
   * The maximum weight of one viewer's operations. `mostInAll` is the limit for all viewers together. A single
   * operation may always run, even if it is heavier than the limit.
   */
  mostOfViewer?: number
  mostInAll?: number
  /** The maximum number of running operations per viewer. */
  mostAtOnce?: number
  mostWaitingOfViewer?: number
  longestWaitMs?: number
  /** The maximum weight of an operation that counts as small. */
  small?: number
}

/** Allows many small operations, or one operation of the maximum weight. */
const MOST_OF_VIEWER = 25_000
const MOST_IN_ALL = 100_000
/**
 * The maximum number of running operations per viewer. There is a maximum because each operation may hold a
 * database connection, or wait for a connection in a queue that does not distinguish between viewers.
 */
const MOST_AT_ONCE = 20
const MOST_WAITING = 500
const LONGEST_WAIT_MS = 10_000
/**
 * More small operations may wait than other operations, and they may wait for longer. The reason is that a viewer
 * may spend the whole rate of a minute on small operations at once.
 */
const SMALL = 500
const MORE_IF_SMALL = 12
const LONGER_IF_SMALL = 3

interface Waiting {
  readonly weight: number
  start(): void
}

interface Queue {
  viewerId: string
  /** The total weight and the number of running operations. */
  weight: number
  count: number
  waiting: Waiting[]
}

export function createWork(options: WorkOptions = {}): Work {
  const places = new Places(options)
  return { begin: (...operation) => places.begin(...operation) }
}

class Places implements Work {
  readonly #most: Required<WorkOptions>
  /** The queues of waiting operations by viewer, in the order in which the viewers take turns. */
  readonly #queues = new Map<string, Queue>()
  #inAll = 0
  #waitingInAll = 0
  /**
   * The operation whose turn it is, but which the limits do not allow yet. Until it starts, only small operations
   * may overtake it.
   */
  #next: Waiting | null = null
  #isServing = false

  constructor(options: WorkOptions) {
    this.#most = {
      mostOfViewer: MOST_OF_VIEWER,
      mostInAll: MOST_IN_ALL,
      mostAtOnce: MOST_AT_ONCE,
      mostWaitingOfViewer: MOST_WAITING,
      longestWaitMs: LONGEST_WAIT_MS,
      small: SMALL,
      ...options,
    }
  }

  async begin(viewerId: string, weight: number, signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted()
    const queue = this.#queues.get(viewerId) ?? { viewerId, weight: 0, count: 0, waiting: [] }
    this.#queues.set(viewerId, queue)
    if (queue.waiting.length === 0 && this.#fitsOwn(queue, weight) && this.#fitsInAll(queue, weight))
      return this.#start(queue, weight)
    const { mostWaitingOfViewer, longestWaitMs, small } = this.#most
    const [more, longer] = weight <= small ? [MORE_IF_SMALL, LONGER_IF_SMALL] : [1, 1]
    if (queue.waiting.length >= mostWaitingOfViewer * more) throw tooManyOfViewer(longestWaitMs)
    const begun = this.#wait(queue, { weight, waitMs: longestWaitMs * longer }, signal)
    this.#serveLater()
    return begun
  }

  /** Whether the viewer's own limit allows the operation. */
  #fitsOwn({ weight: atWork, count }: Queue, weight: number): boolean {
    const { mostOfViewer, mostAtOnce } = this.#most
    return count < mostAtOnce && (atWork === 0 || atWork + weight <= mostOfViewer)
  }

  /** Whether the limit for all viewers together allows the operation. */
  #fitsInAll({ count }: Queue, weight: number, waiting: Waiting | null = null): boolean {
    const { mostInAll, small } = this.#most
    // Small operations do not wait for heavy operations of other viewers.
    if (count === 0 && weight <= small) return true
    if (this.#next !== null && this.#next !== waiting && weight > small) return false
    return this.#inAll === 0 || this.#inAll + weight <= mostInAll
  }

  #start(queue: Queue, weight: number): () => void {
    queue.weight += weight
    queue.count += 1
    this.#inAll += weight
    return () => {
      queue.weight -= weight
      queue.count -= 1
      this.#inAll -= weight
      this.#forgetIdle(queue)
      this.#serveLater()
    }
  }

  #forgetIdle({ viewerId, count, waiting }: Queue): void {
    if (count === 0 && waiting.length === 0) this.#queues.delete(viewerId)
  }

  /** Starts waiting operations in a later turn of the event loop, so that other events are handled first. */
  #serveLater(): void {
    if (this.#isServing || this.#waitingInAll === 0) return
    this.#isServing = true
    setImmediate(() => {
      this.#isServing = false
      for (const queue of [...this.#queues.values()]) this.#serve(queue)
    })
  }

  #serve(queue: Queue): void {
    const [next] = queue.waiting
    if (next === undefined || !this.#fitsOwn(queue, next.weight)) return
    if (!this.#fitsInAll(queue, next.weight, next)) {
      this.#next ??= next
      return
    }
    queue.waiting.shift()
    this.#queues.delete(queue.viewerId)
    this.#queues.set(queue.viewerId, queue)
    next.start()
    this.#serveLater()
  }

  #wait(
    queue: Queue,
    { weight, waitMs }: { weight: number; waitMs: number },
    signal?: AbortSignal,
  ): Promise<() => void> {
    const { longestWaitMs } = this.#most
    this.#waitingInAll += 1
    return new Promise((resolve, reject) => {
      const over = () => {
        this.#waitingInAll -= 1
        if (this.#next === waiting) this.#next = null
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
      }
      const leave = (reason: unknown) => {
        over()
        queue.waiting.splice(queue.waiting.indexOf(waiting), 1)
        this.#forgetIdle(queue)
        this.#serveLater()
        reject(reason)
      }
      const onAbort = () => leave(signal?.reason)
      const late = () =>
        leave(this.#fitsOwn(queue, weight) ? tooManyOfAll(longestWaitMs) : tooManyOfViewer(longestWaitMs))
      const timer = setTimeout(late, waitMs)
      const start = () => {
        over()
        resolve(this.#start(queue, weight))
      }
      const waiting: Waiting = { weight, start }
      signal?.addEventListener('abort', onAbort)
      queue.waiting.push(waiting)
    })
  }
}

function tooManyOfAll(retryAfterMs: number): RateLimitedError {
  return new RateLimitedError('The server has too many operations in progress. Wait, then try again.', retryAfterMs)
}

function tooManyOfViewer(retryAfterMs: number): RateLimitedError {
  return new RateLimitedError('You have too many operations in progress. Wait, then send fewer at once.', retryAfterMs)
}
