import { RedisPubSub } from 'graphql-redis-subscriptions'
import type { Redis } from 'ioredis'
import { createDeferred, type Deferred, sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { LogUnavailableError } from './event-log.ts'
import type { RealtimeLogger } from './logger.ts'
import type { RedisConnection } from './redis.ts'

const CHANNELS_A_COMMAND = 1000
const REFUSED_PAUSE_MS = 1000

/**
 * The channels that this process listens to, over one connection: what is published while the connection stands arrives,
 * at most once. Payloads are JSON.
 */
export interface RedisChannels {
  publish(channel: string, payload: object): Promise<void>
  /** Resolves when the subscription stands, however long Redis is away. @throws LogUnavailableError when closed meanwhile. */
  subscribe(channel: string, listener: (payload: unknown) => void): Promise<() => void>
  /** Called when all subscriptions stand again after the connection was lost. */
  onReconnect(listener: () => void): () => void
  /** Whether what is published arrives here. */
  answers(timeoutMs: number): Promise<boolean>
  close(): void
}

export function createRedisChannels(
  subscriber: RedisConnection,
  publisher: Redis,
  prefix: string,
  logger: RealtimeLogger,
): RedisChannels {
  const reconnectListeners = new Set<() => void>()
  const pending = new Set<(error: Error) => void>()
  const connection = new SubscriberConnection(subscriber.redis, logger, () => {
    for (const listener of reconnectListeners) guarded(listener)
  })
  const pubsub = new RedisPubSub({
    publisher,
    subscriber: connection as unknown as Redis,
    triggerTransform: (channel) => prefix + String(channel),
  })

  /** One listener that throws would end the process, and others would miss the message. */
  function guarded(run: () => void): void {
    try {
      run()
    } catch (error) {
      logger.warn({ error: messageOf(error) }, 'a listener of a Redis channel failed')
    }
  }

  return {
    publish: (channel, payload) => pubsub.publish(prefix + channel, payload),
    subscribe(channel, listener) {
      const { promise, resolve, reject } = createDeferred<() => void>()
      let listening = true
      const subscribed = pubsub.subscribe(channel, (payload: unknown) => {
        if (listening) guarded(() => listener(payload))
      })
      const end = (id: number) => () => {
        // Not within a delivery: RedisPubSub throws when the listeners it is calling go away.
        if (listening) queueMicrotask(() => pubsub.unsubscribe(id))
        listening = false
      }
      pending.add(reject)
      void subscribed.then((id) => resolve(end(id))).finally(() => pending.delete(reject))
      return promise
    },
    onReconnect(listener) {
      reconnectListeners.add(listener)
      return () => reconnectListeners.delete(listener)
    },
    answers: (timeoutMs) => subscriber.answers(timeoutMs),
    close() {
      connection.close()
      for (const reject of pending) reject(new LogUnavailableError('The connection to Redis is closed.'))
    },
  }
}

/**
 * What RedisPubSub takes for its ioredis subscriber. It keeps the wanted channels itself and subscribes to all of them
 * each time the connection is ready. ioredis' own way loses channels when the connection breaks again while it does so,
 * and RedisPubSub leaves a rejected SUBSCRIBE or UNSUBSCRIBE unhandled, which ends the process: here neither rejects.
 */
class SubscriberConnection {
  readonly #redis: Redis
  readonly #logger: RealtimeLogger
  readonly #onRestored: () => void
  /** Wanted channels, with who waits for each to stand. */
  readonly #wanted = new Map<string, Deferred<void> | null>()
  #stoodBefore = false
  #closed = false

  constructor(redis: Redis, logger: RealtimeLogger, onRestored: () => void) {
    this.#redis = redis
    this.#logger = logger
    this.#onRestored = onRestored
    redis.on('ready', () => void this.#restore())
  }

  on(event: 'message' | 'pmessage', listener: (...values: string[]) => void): this {
    if (event === 'message') this.#redis.on('message', listener)
    return this
  }

  /** Calls back when the channel stands, and never when that does not come to pass. */
  subscribe(channel: string, done: (error: null) => void): void {
    const standing = createDeferred()
    void standing.promise.then(() => done(null))
    this.#wanted.set(channel, standing)
    if (this.#redis.status === 'ready') void this.#send([[channel, standing]])
  }

  unsubscribe(channel: string): void {
    this.#wanted.delete(channel)
    this.#redis.unsubscribe(channel).catch(() => {})
  }

  /** RedisPubSub sends one for each UNSUBSCRIBE; we have no patterns. */
  punsubscribe(): void {}

  close(): void {
    this.#closed = true
  }

  async #restore(): Promise<void> {
    const stood = this.#stoodBefore
    if (!(await this.#send([...this.#wanted]))) return
    this.#stoodBefore = true
    if (stood) this.#onRestored()
  }

  /** False when the connection broke meanwhile: then the next one subscribes to everything. */
  async #send(wanted: [channel: string, standing: Deferred<void> | null][]): Promise<boolean> {
    const { stream } = this.#redis
    try {
      for (let at = 0; at < wanted.length; at += CHANNELS_A_COMMAND) {
        await this.#redis.subscribe(...wanted.slice(at, at + CHANNELS_A_COMMAND).map(([channel]) => channel))
      }
    } catch (error) {
      if (this.#closed || this.#redis.status !== 'ready' || this.#redis.stream !== stream) return false
      this.#logger.warn({ error: messageOf(error) }, 'Redis refuses a subscription')
      await sleep(REFUSED_PAUSE_MS)
      if (this.#redis.stream === stream) stream.destroy()
      return false
    }
    for (const [channel, standing] of wanted) {
      if (standing === null || this.#wanted.get(channel) !== standing) continue
      this.#wanted.set(channel, null)
      standing.resolve()
    }
    return true
  }
}
