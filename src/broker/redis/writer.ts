// Writes to topics in Redis in batches, in the order of the calls, and buffers writes while Redis is unreachable.
import { randomBytes } from 'node:crypto'
import { createDeferred } from '../../lib/async.ts'
import { LogUnavailableError } from '../log.ts'
import type { BrokerLogger } from '../logger.ts'
import { CALL_TIMEOUT_MS, type RedisConnection } from './connection.ts'
import {
  encodeBatch,
  type Keys,
  type Operation,
  type OperationResult,
  parseResults,
  type ScriptedRedis,
  sizeOf,
  withWholeText,
} from './scripts.ts'

const MOST_OPERATIONS_A_BATCH = 100
const MOST_CHARACTERS_A_BATCH = 512 * 1024
const MOST_REMEMBERED_TOPICS = 10_000
/** How often the writer checks a queue that waits for the response to a batch. */
const WAITING_INTERVAL_MS = 1000
/**
 * The maximum number of buffered operations per topic while Redis is unreachable. If there are more, the oldest
 * operations are dropped.
 */
const MOST_WAITING = 10_000
/** The maximum number of buffered operations in all topics, and the maximum number of topics. */
const MOST_WAITING_IN_ALL = 100_000
const MOST_TOPICS = 10_000

/** An operation and the promise of its caller. */
interface Task {
  operation: Operation
  /** The time at which the operation expires, in ms of `Date.now`; null if it never expires. */
  deadline: number | null
  resolve: (result: OperationResult) => void
  reject: (error: unknown) => void
}

/** A batch in flight. It is sent again unchanged, with the same number, until Redis responds. */
interface Batch {
  number: number
  tasks: Task[]
  startsAnew: boolean
}

/** The writes to one topic that are not completed yet. */
interface Queue {
  topic: string
  waiting: Task[]
  sent: Batch | null
  /**
   * Whether operations were dropped. In this case, the topic must begin a new epoch, so that its subscribers
   * receive a gap.
   */
  hasHoles: boolean
  patience: NodeJS.Timeout | undefined
}

/**
 * The last publication that this process wrote to a topic. If the publication is still in Redis, Redis has lost no
 * write of this process.
 */
interface LastWrite {
  epoch: string
  offset: number
  batch: string
}

export interface RedisWriterOptions {
  connection: RedisConnection
  redis: ScriptedRedis
  keys: Keys
  /** The wake-up channel of a topic. */
  wakeUpChannel: (topic: string) => string
  logger: BrokerLogger
  /** How long a write waits for Redis before it is deferred. */
  patienceMs: number
}

/**
 * Writes one batch at a time per topic. Operations that arrive in the meantime form the next batch. Thus the order
 * of the calls is kept across reconnects. Redis recognises a repeated batch by its number. While Redis is
 * unreachable, operations are buffered up to a limit, and callers do not wait: see `write`.
 */
export class RedisWriter {
  readonly #options: RedisWriterOptions
  readonly #writer = randomBytes(6).toString('hex')
  readonly #queues = new Map<string, Queue>()
  readonly #lastWrites = new Map<string, LastWrite>()
  /** The number of operations that are queued but not yet in a batch. */
  #waiting = 0
  #batches = 0
  /** Whether Redis has failed to respond in time for some topic, and has not responded for any topic since. */
  #isAway = false
  #dropped = 0
  #closed = false

  constructor(options: RedisWriterOptions) {
    this.#options = options
  }

  /**
   * Resolves with the result of the operation. Resolves with `deferred` if Redis does not respond within
   * `patienceMs`, and at once while Redis is known to be unreachable. A deferred operation stays queued in order.
   * An operation on text is never deferred: its promise rejects after 5 s.
   */
  write(topic: string, operation: Operation): Promise<OperationResult> {
    if (this.#closed) return Promise.reject(closedError())
    const { promise, resolve, reject } = createDeferred<OperationResult>()
    const deadline = operation.type === 'text' ? Date.now() + CALL_TIMEOUT_MS : null
    const existing = this.#queues.get(topic)
    const queue = existing ?? { topic, waiting: [], sent: null, hasHoles: false, patience: undefined }
    this.#queues.set(topic, queue)
    const task: Task = { operation, deadline, resolve, reject }
    queue.waiting.push(task)
    this.#waiting += 1
    if (this.#isAway && deadline === null) defer(task)
    if (this.#isAway) this.#enforceLimits(queue)
    if (existing === undefined) void this.#drain(queue)
    return promise
  }

  /** Whether Redis is unreachable for writes. */
  get isAway(): boolean {
    return this.#isAway
  }

  /** The number of queued operations. */
  get waiting(): number {
    return this.#waiting
  }

  /** Rejects all queued operations. */
  close(): void {
    this.#closed = true
    for (const queue of this.#queues.values()) this.#dropQueue(queue, closedError())
  }

  async #drain(queue: Queue): Promise<void> {
    // This waits for further operations of the same tick, which can join the batch.
    await Promise.resolve()
    while (queue.waiting.length > 0 || queue.hasHoles) {
      const batch = this.#takeBatch(queue)
      queue.sent = batch
      this.#watchResponse(queue, this.#options.patienceMs)
      const answer = await this.#send(queue.topic, batch, () => this.#isWanted(queue)).catch(() => null)
      if (answer === null || !this.#isWanted(queue)) return
      queue.sent = null
      this.#onResponse()
      this.#settle(queue, batch, answer)
    }
    clearTimeout(queue.patience)
    this.#queues.delete(queue.topic)
  }

  #isWanted(queue: Queue): boolean {
    return this.#queues.get(queue.topic) === queue
  }

  /** Sends a batch again and again until Redis responds or the queue is dropped. */
  #send(topic: string, { number, tasks, startsAnew }: Batch, isWanted: () => boolean): Promise<string> {
    const { connection, redis, keys, wakeUpChannel } = this.#options
    const into = encodeBatch(
      {
        topic,
        writer: this.#writer,
        number,
        operations: tasks.map(({ operation }) => operation),
        wakeUpChannel: wakeUpChannel(topic),
        known: this.#lastWrites.get(topic) ?? null,
        startsAnew,
      },
      keys,
    )
    return connection.callUntilAnswered(() => redis.logWrite(into.keys.length, ...into.keys, ...into.args), isWanted)
  }

  /**
   * Resolves each task with its result. If a delta did not continue its draft, requeues the tasks that were not
   * executed.
   */
  #settle(queue: Queue, { tasks, number }: Batch, answer: string): void {
    const { epoch, last, results } = parseResults(answer)
    if (last !== null) this.#remember(queue.topic, { epoch, offset: last, batch: `${this.#writer}.${number}` })
    for (const [index, result] of results.entries()) {
      const task = tasks[index]!
      if (result.type !== 'misfit') {
        task.resolve(result)
        continue
      }
      const again = [...wholeOf(task), ...tasks.slice(index + 1)]
      queue.waiting.unshift(...again)
      this.#waiting += again.length
    }
  }

  /** Takes the oldest operations that fit into a batch. */
  #takeBatch(queue: Queue): Batch {
    let characters = 0
    let count = 0
    while (
      count < queue.waiting.length &&
      count < MOST_OPERATIONS_A_BATCH &&
      (count === 0 || (characters < MOST_CHARACTERS_A_BATCH && !beginsBatch(queue.waiting[count]!.operation)))
    ) {
      characters += sizeOf(queue.waiting[count]!.operation)
      count += 1
    }
    this.#batches += 1
    this.#waiting -= count
    const batch = { number: this.#batches, tasks: queue.waiting.splice(0, count), startsAnew: queue.hasHoles }
    queue.hasHoles = false
    return batch
  }

  /**
   * Stops waiting for the response after `ms`. A response that has arrived but has not been read yet counts as
   * being in time.
   */
  #watchResponse(queue: Queue, ms: number): void {
    clearTimeout(queue.patience)
    const timer = setTimeout(() => {
      setImmediate(() => {
        if (queue.patience === timer && queue.sent !== null && this.#isWanted(queue)) this.#deferWrites(queue)
      })
    }, ms)
    queue.patience = timer
  }

  #deferWrites(queue: Queue): void {
    if (!this.#isAway) this.#options.logger.warn({}, 'Redis is unreachable; buffering events in memory')
    this.#isAway = true
    const isOver = ({ deadline }: Task) => deadline !== null && deadline <= Date.now()
    for (const task of [...(queue.sent?.tasks ?? []), ...queue.waiting]) {
      if (task.deadline === null) defer(task)
      else if (isOver(task)) task.reject(new LogUnavailableError('Redis did not respond in time.'))
    }
    const left = queue.waiting.filter((task) => !isOver(task))
    this.#waiting -= queue.waiting.length - left.length
    queue.waiting = left
    this.#watchResponse(queue, WAITING_INTERVAL_MS)
  }

  #onResponse(): void {
    if (!this.#isAway) return
    this.#isAway = false
    this.#options.logger.info({ givenUp: this.#dropped }, 'Redis is reachable again; publishing the buffered events')
    this.#dropped = 0
  }

  /**
   * Drops the oldest operations if too many are waiting for this topic, or for all topics together. Drops the
   * oldest queue if there are too many topics.
   */
  #enforceLimits(queue: Queue): void {
    if (queue.waiting.length > MOST_WAITING) this.#dropOldest(queue, queue.waiting.length - MOST_WAITING)
    if (this.#waiting > MOST_WAITING_IN_ALL) {
      const oldest = [...this.#queues.values()].find(({ waiting }) => waiting.length > 0)
      if (oldest !== undefined) this.#dropOldest(oldest, oldest.waiting.length)
    }
    if (this.#queues.size > MOST_TOPICS) {
      const [oldest] = this.#queues.values()
      this.#dropQueue(oldest!, new LogUnavailableError('The buffer of writes to Redis is full.'))
    }
  }

  #dropOldest(queue: Queue, count: number): void {
    for (const { reject } of queue.waiting.splice(0, count))
      reject(new LogUnavailableError('The buffer of writes to Redis is full.'))
    this.#waiting -= count
    this.#dropped += count
    queue.hasHoles = true
  }

  /**
   * Drops a queue. Subscribers of its topic receive no gap, because the writer does not remember that it dropped
   * the queue.
   */
  #dropQueue(queue: Queue, error: Error): void {
    clearTimeout(queue.patience)
    for (const { reject } of [...(queue.sent?.tasks ?? []), ...queue.waiting]) reject(error)
    this.#waiting -= queue.waiting.length
    this.#dropped += queue.waiting.length
    queue.waiting = []
    this.#queues.delete(queue.topic)
  }

  #remember(topic: string, lastWrite: LastWrite): void {
    if (this.#lastWrites.size >= MOST_REMEMBERED_TOPICS) this.#lastWrites.clear()
    this.#lastWrites.set(topic, lastWrite)
  }
}

/**
 * Resolves a task with `deferred`. The caller can no longer react to the outcome, so the topic must accept the
 * task's ordinal even if Redis has lost the earlier ordinals by then.
 */
function defer(task: Task): void {
  if (task.operation.type === 'event') task.operation = { ...task.operation, isFirst: true }
  task.resolve({ type: 'deferred' })
}

/** Whether the operation drops the earlier entries of the topic. Such an operation must be the first of its batch. */
const beginsBatch = (operation: Operation) => operation.type === 'event' && operation.forgets === true

const closedError = () => new LogUnavailableError('The event log is closed.')

/**
 * Returns the task with the whole text of its part. If the text is not available, rejects the task and returns an
 * empty list.
 */
function wholeOf(task: Task): Task[] {
  try {
    return [{ ...task, operation: withWholeText(task.operation) }]
  } catch (error) {
    task.reject(error)
    return []
  }
}
