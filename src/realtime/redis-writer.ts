import { randomBytes } from 'node:crypto'
import { createDeferred } from '../lib/async.ts'
import { newEpoch } from './cursor.ts'
import { LogUnavailableError } from './event-log.ts'
import type { RealtimeLogger } from './logger.ts'
import type { RedisConnection } from './redis.ts'
import { CALL_TIMEOUT_MS } from './redis-calls.ts'
import { encode, type Operation, type Outcome, readAnswer, sizeOf, withWhole } from './redis-operations.ts'
import type { Keys, ScriptedRedis } from './redis-scripts.ts'

const MOST_OPERATIONS_A_BATCH = 100
const MOST_CHARACTERS_A_BATCH = 512 * 1024
const MOST_REMEMBERED_TOPICS = 10_000
/** How often what cannot be told yet is looked at again. */
const WAITING_INTERVAL_MS = 1000
/** Past so many operations of a topic that wait while Redis is away, the oldest are given up. */
const MOST_WAITING = 10_000
/** The same of all topics together, and of topics. */
const MOST_WAITING_IN_ALL = 100_000
const MOST_TOPICS = 10_000

/** An operation, and who waits for its outcome. */
interface Task {
  operation: Operation
  /** When its caller is told that it failed, in ms of `Date.now`. Null: it is never given up for its age. */
  deadline: number | null
  resolve: (outcome: Outcome) => void
  reject: (error: unknown) => void
}

/** A batch under way. It is sent again as it was, under its number, until there is an answer. */
interface Batch {
  number: number
  tasks: Task[]
  startsAnew: boolean
}

/** What this process still has to write to one topic. */
interface Queue {
  topic: string
  waiting: Task[]
  sent: Batch | null
  /** Some of it was given up: the topic starts anew, so that its followers learn that they missed something. */
  hasHoles: boolean
  patience: NodeJS.Timeout | undefined
}

/** The last entry of a topic that this process wrote: that it is still there shows that Redis has lost nothing. */
interface Known {
  epoch: string
  n: number
  batch: string
}

export interface RedisWriterOptions {
  connection: RedisConnection
  redis: ScriptedRedis
  keys: Keys
  /** The channel that rings for a topic. */
  bell: (topic: string) => string
  logger: RealtimeLogger
  /** How long whoever tells something waits for a topic that Redis does not answer for. */
  patienceMs: number
}

/**
 * Writes, one batch at a time for each topic, and what is asked for meanwhile in the next one: so that the order of the calls
 * is kept over lost connections too, and a batch that is sent again can be told from a new one by its number. While Redis
 * is away it all waits here, bounded, and nobody waits for it: see `write`.
 */
export class RedisWriter {
  readonly #options: RedisWriterOptions
  readonly #writer = randomBytes(6).toString('hex')
  readonly #queues = new Map<string, Queue>()
  readonly #known = new Map<string, Known>()
  /** Operations in queues that are in no batch yet. */
  #waiting = 0
  #batches = 0
  /** A topic's answer did not come in time, and none has come since. */
  #isAway = false
  #givenUp = 0
  #closed = false

  constructor(options: RedisWriterOptions) {
    this.#options = options
  }

  /**
   * Resolves with the outcome; with `deferred` where there is none within `patienceMs`, or at once while Redis is known to be away:
   * the operation then goes on waiting, in its order. A text is not deferred: it rejects after 5 s.
   */
  write(topic: string, operation: Operation): Promise<Outcome> {
    if (this.#closed) return Promise.reject(closedError())
    const { promise, resolve, reject } = createDeferred<Outcome>()
    const deadline = operation.type === 'text' ? Date.now() + CALL_TIMEOUT_MS : null
    const known = this.#queues.get(topic)
    const queue = known ?? { topic, waiting: [], sent: null, hasHoles: false, patience: undefined }
    this.#queues.set(topic, queue)
    queue.waiting.push({ operation, deadline, resolve, reject })
    this.#waiting += 1
    if (this.#isAway && deadline === null) resolve({ type: 'deferred' })
    if (this.#isAway) this.#bound(queue)
    if (known === undefined) void this.#drain(queue)
    return promise
  }

  /** Redis does not answer what is told. */
  get isAway(): boolean {
    return this.#isAway
  }

  /** Operations that wait to be told. */
  get waiting(): number {
    return this.#waiting
  }

  /** Fails what is waiting. */
  close(): void {
    this.#closed = true
    for (const queue of this.#queues.values()) this.#forget(queue, closedError())
  }

  async #drain(queue: Queue): Promise<void> {
    // What is asked for in the same breath goes along.
    await Promise.resolve()
    while (queue.waiting.length > 0 || queue.hasHoles) {
      const batch = this.#takeBatch(queue)
      queue.sent = batch
      this.#awaitAnswer(queue, this.#options.patienceMs)
      const answer = await this.#send(queue.topic, batch, () => this.#isWanted(queue)).catch(() => null)
      if (answer === null || !this.#isWanted(queue)) return
      queue.sent = null
      this.#cameBack()
      this.#settle(queue, batch, answer)
    }
    clearTimeout(queue.patience)
    this.#queues.delete(queue.topic)
  }

  #isWanted(queue: Queue): boolean {
    return this.#queues.get(queue.topic) === queue
  }

  /** Sends a batch until it is answered, or not wanted any more. */
  #send(topic: string, { number, tasks, startsAnew }: Batch, isWanted: () => boolean): Promise<string> {
    const { connection, redis, keys, bell } = this.#options
    const { epoch, n, batch } = this.#known.get(topic) ?? { epoch: '', n: 0, batch: '' }
    const into = { keys: [...keys.topic(topic)] as string[], args: [] as (string | number)[] }
    into.args.push(this.#writer, number, Date.now(), newEpoch(), bell(topic), epoch, n, batch, startsAnew ? '1' : '0')
    for (const { operation } of tasks) encode(operation, topic, keys, into)
    return connection.callUntilAnswered(() => redis.logWrite(into.keys.length, ...into.keys, ...into.args), isWanted)
  }

  /** Tells each task its outcome, and puts back those still to be done, where a draft did not fit. */
  #settle(queue: Queue, { tasks, number }: Batch, answer: string): void {
    const { epoch, last, outcomes } = readAnswer(answer)
    if (last !== null) this.#remember(queue.topic, { epoch, n: last, batch: `${this.#writer}.${number}` })
    for (const [index, outcome] of outcomes.entries()) {
      const task = tasks[index]!
      if (outcome.type !== 'misfit') {
        task.resolve(outcome)
        continue
      }
      const again = [...wholeOf(task), ...tasks.slice(index + 1)]
      queue.waiting.unshift(...again)
      this.#waiting += again.length
    }
  }

  /** The oldest operations, within the size of a batch. */
  #takeBatch(queue: Queue): Batch {
    let characters = 0
    let count = 0
    while (
      count < queue.waiting.length &&
      count < MOST_OPERATIONS_A_BATCH &&
      (count === 0 || characters < MOST_CHARACTERS_A_BATCH)
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

  /** When there is no answer in time, nobody waits any longer. An answer that is here already, and unread, counts. */
  #awaitAnswer(queue: Queue, ms: number): void {
    clearTimeout(queue.patience)
    const timer = setTimeout(() => {
      setImmediate(() => {
        if (queue.patience === timer && queue.sent !== null && this.#isWanted(queue)) this.#letGo(queue)
      })
    }, ms)
    queue.patience = timer
  }

  #letGo(queue: Queue): void {
    if (!this.#isAway) this.#options.logger.warn({}, 'Redis is unreachable; buffering events in memory')
    this.#isAway = true
    const isOver = ({ deadline }: Task) => deadline !== null && deadline <= Date.now()
    for (const task of [...(queue.sent?.tasks ?? []), ...queue.waiting]) {
      if (task.deadline === null) task.resolve({ type: 'deferred' })
      else if (isOver(task)) task.reject(new LogUnavailableError('Redis did not respond in time.'))
    }
    const left = queue.waiting.filter((task) => !isOver(task))
    this.#waiting -= queue.waiting.length - left.length
    queue.waiting = left
    this.#awaitAnswer(queue, WAITING_INTERVAL_MS)
  }

  #cameBack(): void {
    if (!this.#isAway) return
    this.#isAway = false
    this.#options.logger.info({ givenUp: this.#givenUp }, 'Redis is reachable again; publishing the buffered events')
    this.#givenUp = 0
  }

  /** Gives up the oldest of what waits where it is too much: of this topic, of all together, or whole topics. */
  #bound(queue: Queue): void {
    if (queue.waiting.length > MOST_WAITING) this.#giveUp(queue, queue.waiting.length - MOST_WAITING)
    if (this.#waiting > MOST_WAITING_IN_ALL) {
      const oldest = [...this.#queues.values()].find(({ waiting }) => waiting.length > 0)
      if (oldest !== undefined) this.#giveUp(oldest, oldest.waiting.length)
    }
    if (this.#queues.size > MOST_TOPICS) {
      const [oldest] = this.#queues.values()
      this.#forget(oldest!, new LogUnavailableError('The buffer of writes to Redis is full.'))
    }
  }

  #giveUp(queue: Queue, count: number): void {
    for (const { reject } of queue.waiting.splice(0, count))
      reject(new LogUnavailableError('The buffer of writes to Redis is full.'))
    this.#waiting -= count
    this.#givenUp += count
    queue.hasHoles = true
  }

  /** Its followers are not told: that would take remembering it. */
  #forget(queue: Queue, error: Error): void {
    clearTimeout(queue.patience)
    for (const { reject } of [...(queue.sent?.tasks ?? []), ...queue.waiting]) reject(error)
    this.#waiting -= queue.waiting.length
    this.#givenUp += queue.waiting.length
    queue.waiting = []
    this.#queues.delete(queue.topic)
  }

  #remember(topic: string, known: Known): void {
    if (this.#known.size >= MOST_REMEMBERED_TOPICS) this.#known.clear()
    this.#known.set(topic, known)
  }
}

const closedError = () => new LogUnavailableError('The event log is closed.')

/** The task with the whole text in place of its delta; none where that text cannot be had. */
function wholeOf(task: Task): Task[] {
  try {
    return [{ ...task, operation: withWhole(task.operation) }]
  } catch (error) {
    task.reject(error)
    return []
  }
}
