import { RateLimitedError } from '../../lib/errors.ts'

/** Which operations are at work at a time, by what they weigh: the fields they may come to. */
export interface Work {
  /**
   * Resolves when the operation may begin, with what is to be called when it has ended: at once while there is room. Those that wait are
   * served viewer by viewer, and for each viewer in order.
   * @throws RateLimitedError where that would take too long; the signal's reason where it aborts meanwhile
   */
  begin(viewerId: string, weight: number, signal?: AbortSignal): Promise<() => void>
}

export interface WorkOptions {
  /** Of one viewer, and of all; one operation is at work whatever it weighs. */
  mostOfViewer?: number
  mostInAll?: number
  mostWaitingOfViewer?: number
  longestWaitMs?: number
}

/** Many small operations, or one that is as heavy as may be. */
const MOST_OF_VIEWER = 25_000
const MOST_IN_ALL = 100_000
const MOST_WAITING = 500
const LONGEST_WAIT_MS = 10_000

interface Waiting {
  weight: number
  start(): void
}

interface Queue {
  viewerId: string
  /** At work. */
  weight: number
  waiting: Waiting[]
}

export function createWork(options: WorkOptions = {}): Work {
  const places = new Places(options)
  return { begin: (...operation) => places.begin(...operation) }
}

class Places implements Work {
  readonly #most: Required<WorkOptions>
  /** In the order in which they are served next. */
  readonly #queues = new Map<string, Queue>()
  #inAll = 0
  #waitingInAll = 0
  #isServing = false

  constructor(options: WorkOptions) {
    this.#most = {
      mostOfViewer: MOST_OF_VIEWER,
      mostInAll: MOST_IN_ALL,
      mostWaitingOfViewer: MOST_WAITING,
      longestWaitMs: LONGEST_WAIT_MS,
      ...options,
    }
  }

  async begin(viewerId: string, weight: number, signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted()
    const queue = this.#queues.get(viewerId) ?? { viewerId, weight: 0, waiting: [] }
    this.#queues.set(viewerId, queue)
    if (queue.waiting.length === 0 && this.#fits(queue, weight)) return this.#start(queue, weight)
    const { mostWaitingOfViewer, longestWaitMs } = this.#most
    if (queue.waiting.length >= mostWaitingOfViewer) throw tooBusy(longestWaitMs)
    const begun = this.#wait(queue, weight, signal)
    this.#serveLater()
    return begun
  }

  #fits({ weight: atWork }: Queue, weight: number): boolean {
    const { mostOfViewer, mostInAll } = this.#most
    return (atWork === 0 || atWork + weight <= mostOfViewer) && (this.#inAll === 0 || this.#inAll + weight <= mostInAll)
  }

  #start(queue: Queue, weight: number): () => void {
    queue.weight += weight
    this.#inAll += weight
    return () => {
      queue.weight -= weight
      this.#inAll -= weight
      this.#forgetIdle(queue)
      this.#serveLater()
    }
  }

  #forgetIdle({ viewerId, weight, waiting }: Queue): void {
    if (weight === 0 && waiting.length === 0) this.#queues.delete(viewerId)
  }

  /** In a turn of its own, so that whatever else came meanwhile has one too. */
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
    if (next === undefined || !this.#fits(queue, next.weight)) return
    queue.waiting.shift()
    this.#queues.delete(queue.viewerId)
    this.#queues.set(queue.viewerId, queue)
    next.start()
    this.#serveLater()
  }

  #wait(queue: Queue, weight: number, signal?: AbortSignal): Promise<() => void> {
    const { longestWaitMs } = this.#most
    this.#waitingInAll += 1
    return new Promise((resolve, reject) => {
      const over = () => {
        this.#waitingInAll -= 1
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
      }
      const leave = (reason: unknown) => {
        over()
        queue.waiting.splice(queue.waiting.indexOf(waiting), 1)
        this.#forgetIdle(queue)
        reject(reason)
      }
      const onAbort = () => leave(signal?.reason)
      const timer = setTimeout(() => leave(tooBusy(longestWaitMs)), longestWaitMs)
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

function tooBusy(retryAfterMs: number): RateLimitedError {
  return new RateLimitedError('Too much of yours is at work: wait, and send fewer operations at once.', retryAfterMs)
}
