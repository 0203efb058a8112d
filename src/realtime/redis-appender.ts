import { randomBytes } from 'node:crypto'
import { encodeCursor, newEpoch } from './cursor.ts'
import {
  type AppendOptions,
  type AppendResult,
  type LogEvent,
  LogUnavailableError,
  type TextDelta,
} from './event-log.ts'
import { CALL_TIMEOUT_MS, type RedisConnection } from './redis.ts'
import type { Keys, ScriptedRedis } from './redis-scripts.ts'

const MOST_OPERATIONS_A_BATCH = 100
const MOST_CHARACTERS_A_BATCH = 512 * 1024
const MOST_REMEMBERED_TOPICS = 10_000

/** Something to append, and who waits for the outcome. */
interface Operation {
  json: string
  guard: string | undefined
  once: string | undefined
  ordinal: number | undefined
  /** For text: the draft to grow, by `delta` or, once that did not fit, to `whole()`. */
  text: { delta: TextDelta; whole: () => string; replaces: boolean } | null
  deadline: number
  resolve: (result: AppendResult) => void
  reject: (error: unknown) => void
}

/** What this process still has to append to one topic. */
interface Queue {
  waiting: Operation[]
  busy: boolean
}

/**
 * Appends, one batch at a time for each topic, and what is asked for meanwhile in the next one: so that the order of the
 * calls is kept over lost connections too, and a batch that is sent again can be told from a new one by its number.
 */
export class RedisAppender {
  readonly #connection: RedisConnection
  readonly #redis: ScriptedRedis
  readonly #keys: Keys
  readonly #bell: (topic: string) => string
  readonly #writer = randomBytes(6).toString('hex')
  readonly #queues = new Map<string, Queue>()
  /** Topics appended to over the connection as it stands: the first batch makes sure that Redis was not restarted. */
  readonly #checked = new Set<string>()
  #lostConnections = 0
  #batches = 0

  constructor(connection: RedisConnection, redis: ScriptedRedis, keys: Keys, bell: (topic: string) => string) {
    this.#connection = connection
    this.#redis = redis
    this.#keys = keys
    this.#bell = bell
    redis.on('close', () => {
      this.#lostConnections += 1
      this.#checked.clear()
    })
  }

  append(topic: string, event: LogEvent, { once, ordinal, guard }: AppendOptions = {}): Promise<AppendResult> {
    return this.#enqueue(topic, { json: JSON.stringify(event), guard, once, ordinal, text: null })
  }

  /** `duplicate` comes with no cursor and does not happen here: a delta held already answers as appended. */
  appendDelta(topic: string, delta: TextDelta, whole: () => string, guard?: string): Promise<AppendResult> {
    const text = { delta, whole, replaces: false }
    return this.#enqueue(topic, { json: deltaEvent(delta), guard, once: undefined, ordinal: undefined, text })
  }

  /** Fails what is waiting. */
  close(): void {
    for (const { waiting } of this.#queues.values()) {
      for (const { reject } of waiting.splice(0)) reject(new LogUnavailableError('The event log is closed.'))
    }
  }

  #enqueue(topic: string, operation: Omit<Operation, 'deadline' | 'resolve' | 'reject'>): Promise<AppendResult> {
    return new Promise((resolve, reject) => {
      const queue = this.#queues.get(topic) ?? { waiting: [], busy: false }
      this.#queues.set(topic, queue)
      queue.waiting.push({ ...operation, deadline: Date.now() + CALL_TIMEOUT_MS, resolve, reject })
      if (!queue.busy) void this.#drain(topic, queue)
    })
  }

  async #drain(topic: string, queue: Queue): Promise<void> {
    queue.busy = true
    // What is asked for in the same breath goes along.
    await Promise.resolve()
    while (queue.waiting.length > 0) {
      const batch = takeBatch(queue.waiting)
      try {
        queue.waiting.unshift(...settle(batch, await this.#send(topic, batch)))
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#queues.delete(topic)
  }

  #send(topic: string, batch: Operation[]): Promise<string> {
    this.#batches += 1
    const number = this.#batches
    const keys: string[] = [...this.#keys.topic(topic)]
    const operations: (string | number)[] = []
    for (const operation of batch) this.#encode(operation, keys, operations)
    const epoch = newEpoch()
    return this.#connection.call(async () => {
      const lostConnections = this.#lostConnections
      const first = this.#checked.has(topic) ? '0' : '1'
      const head = [this.#writer, number, Date.now(), epoch, this.#bell(topic), first]
      const answer = await this.#redis.logAppend(keys.length, ...keys, ...head, ...operations)
      if (lostConnections === this.#lostConnections) this.#remember(topic)
      return answer
    }, batch[0]!.deadline)
  }

  #encode({ json, guard, once, ordinal, text }: Operation, keys: string[], operations: (string | number)[]): void {
    if (guard !== undefined) keys.push(this.#keys.seal(guard))
    const guarded = guard === undefined ? '0' : '1'
    if (text === null) {
      operations.push('event', guarded, json, once ?? '', ordinal ?? '')
      return
    }
    const { delta, replaces } = text
    keys.push(this.#keys.draft(delta.messageId), this.#keys.text(delta.messageId, delta.partIndex))
    const escaped = JSON.stringify(delta.delta).slice(1, -1)
    operations.push(
      replaces ? 'whole' : 'delta',
      guarded,
      json,
      delta.partIndex,
      delta.offset,
      delta.delta.length,
      escaped,
    )
  }

  #remember(topic: string): void {
    if (this.#checked.size >= MOST_REMEMBERED_TOPICS) this.#checked.clear()
    this.#checked.add(topic)
  }
}

function deltaEvent({ messageId, partIndex, offset, delta }: TextDelta): string {
  return JSON.stringify({ type: 'MessageTextDelta', messageId, partIndex, offset, delta })
}

/** The oldest operations, within the size of a batch. */
function takeBatch(waiting: Operation[]): Operation[] {
  let characters = 0
  let count = 0
  while (
    count < waiting.length &&
    count < MOST_OPERATIONS_A_BATCH &&
    (count === 0 || characters < MOST_CHARACTERS_A_BATCH)
  ) {
    characters += waiting[count]!.json.length
    count += 1
  }
  return waiting.splice(0, count)
}

/** Tells each operation its outcome. Comes back with those still to be done, where a draft did not fit. */
function settle(batch: Operation[], answer: string): Operation[] {
  const [epoch, ...outcomes] = answer.split(',') as [string, ...string[]]
  for (const [index, outcome] of outcomes.entries()) {
    const operation = batch[index]!
    const n = Number(outcome.slice(1))
    if (outcome[0] === 'a' || outcome[0] === 'h')
      operation.resolve({ type: 'appended', cursor: encodeCursor({ epoch, n }) })
    else if (outcome[0] === 'm') operation.resolve({ type: 'missing', after: n })
    else if (outcome[0] === 's') operation.resolve({ type: 'sealed' })
    else if (outcome[0] === 'd') operation.resolve({ type: 'duplicate' })
    else return [...withWhole(operation), ...batch.slice(index + 1)]
  }
  return []
}

/** The operation with the whole text of its part in place of the delta; none where that text cannot be had. */
function withWhole(operation: Operation): Operation[] {
  const { delta, whole } = operation.text!
  try {
    const replaced = { ...delta, offset: 0, delta: whole() }
    return [{ ...operation, json: deltaEvent(replaced), text: { delta: replaced, whole, replaces: true } }]
  } catch (error) {
    operation.reject(error)
    return []
  }
}
