import { RedisPubSub } from 'graphql-redis-subscriptions'
import type { Redis } from 'ioredis'
import { createDeferred, type Deferred, sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { LogUnavailableError } from './event-log.ts'
import type { RealtimeLogger } from './logger.ts'
import type { RedisConnection } from './redis.ts'

const CHANNELS_A_COMMAND = 1000
const REFUSED_PAUSE_MS = 1000

/** Over which connections channels go. */
export interface ChannelRoutes {
  /** Whether by the sharded commands of a cluster: there a channel belongs to the node of its slot. */
  readonly isSharded: boolean
  /** Where a channel is listened to; null while that is not known. */
  connectionOf(channel: string): Redis | null
  /** Called with each connection that is ready, again and again, and with all where channels have moved between them. */
  onReady(listener: (redis: Redis) => void): void
  publish(channel: string, text: string): Promise<unknown>
  /** Whether what is published arrives here. */
  answers(timeoutMs: number): Promise<boolean>
  /** Resolves once the connections stand. @throws as RedisConnection's does. */
  ready(): Promise<void>
  /** A connection did not take a channel. */
  refused(): void
  close(): void
}

/** One connection for all channels; another one publishes. */
export function createRoutes(subscriber: RedisConnection & { redis: Redis }, publisher: Redis): ChannelRoutes {
  return {
    isSharded: false,
    connectionOf: () => subscriber.redis,
    onReady: (listener) => void subscriber.redis.on('ready', () => listener(subscriber.redis)),
    publish: (channel, text) => publisher.publish(channel, text),
    answers: (timeoutMs) => subscriber.answers(timeoutMs),
    ready: () => subscriber.ready(),
    refused() {},
    close: () => subscriber.close(),
  }
}

/**
 * The channels that this process listens to: what is published while the connection stands arrives, at most once, or in a
 * cluster whose slots move perhaps twice. Payloads are JSON.
 */
export interface RedisChannels {
  /** The command that publishes, for scripts. */
  readonly command: 'PUBLISH' | 'SPUBLISH'
  publish(channel: string, payload: object): Promise<void>
  /** The same for a script to publish; null in a cluster, where a script reaches the channels of one node only. */
  textFor(channel: string, payload: object): { channel: string; text: string } | null
  /** Resolves when the subscription stands, however long Redis is away. @throws LogUnavailableError when closed meanwhile. */
  subscribe(channel: string, listener: (payload: unknown) => void): Promise<() => void>
  /** Called when the subscriptions of a connection that was lost stand again. */
  onReconnect(listener: () => void): () => void
  /** Whether what is published arrives here. */
  answers(timeoutMs: number): Promise<boolean>
  close(): void
}

export function createRedisChannels(routes: ChannelRoutes, prefix: string, logger: RealtimeLogger): RedisChannels {
  const reconnectListeners = new Set<() => void>()
  const pending = new Set<(error: Error) => void>()
  const subscriptions = new Subscriptions(routes, logger, () => {
    for (const listener of reconnectListeners) guarded(listener)
  })
  const pubsub = new RedisPubSub({
    publisher: routes as unknown as Redis,
    subscriber: subscriptions as unknown as Redis,
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
    command: routes.isSharded ? 'SPUBLISH' : 'PUBLISH',
    publish: (channel, payload) => pubsub.publish(prefix + channel, payload),
    textFor: (channel, payload) =>
      routes.isSharded ? null : { channel: prefix + channel, text: JSON.stringify(payload) },
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
    answers: (timeoutMs) => routes.answers(timeoutMs),
    close() {
      subscriptions.close()
      routes.close()
      for (const reject of pending) reject(new LogUnavailableError('The connection to Redis is closed.'))
    },
  }
}

/**
 * What RedisPubSub takes for its ioredis subscriber: all that it is here is a map of listeners. This keeps the wanted channels
 * itself and subscribes to all of a connection's each time that is ready. ioredis' own way loses channels when the connection
 * breaks again while it does so, and RedisPubSub leaves a rejected SUBSCRIBE or UNSUBSCRIBE unhandled, which ends the
 * process: here neither rejects.
 */
class Subscriptions {
  readonly #routes: ChannelRoutes
  readonly #logger: RealtimeLogger
  readonly #onRestored: () => void
  /** Wanted channels, with who waits for each to stand; null where it stood already. */
  readonly #wanted = new Map<string, Deferred<void> | null>()
  readonly #heard = new WeakSet<Redis>()
  readonly #listeners: ((channel: string, text: string) => void)[] = []
  #closed = false

  constructor(routes: ChannelRoutes, logger: RealtimeLogger, onRestored: () => void) {
    this.#routes = routes
    this.#logger = logger
    this.#onRestored = onRestored
    routes.onReady((redis) => void this.#restore(redis))
  }

  on(event: 'message' | 'pmessage', listener: (channel: string, text: string) => void): this {
    if (event === 'message') this.#listeners.push(listener)
    return this
  }

  /** Calls back when the channel stands, and never when that does not come to pass. */
  subscribe(channel: string, done: (error: null) => void): void {
    const standing = createDeferred()
    void standing.promise.then(() => done(null))
    this.#wanted.set(channel, standing)
    const redis = this.#routes.connectionOf(channel)
    if (redis?.status === 'ready') void this.#send(redis, [[channel, standing]])
  }

  unsubscribe(channel: string): void {
    this.#wanted.delete(channel)
    const redis = this.#routes.connectionOf(channel)
    if (redis === null) return
    const left = this.#routes.isSharded ? redis.sunsubscribe(channel) : redis.unsubscribe(channel)
    left.catch(() => {})
  }

  /** RedisPubSub sends one for each UNSUBSCRIBE; we have no patterns. */
  punsubscribe(): void {}

  close(): void {
    this.#closed = true
  }

  async #restore(redis: Redis): Promise<void> {
    const wanted = [...this.#wanted].filter(([channel]) => this.#routes.connectionOf(channel) === redis)
    const stood = wanted.some(([, standing]) => standing === null)
    if ((await this.#send(redis, wanted)) && stood) this.#onRestored()
  }

  /** False when the connection broke meanwhile: then the next one subscribes to everything. */
  async #send(redis: Redis, wanted: [channel: string, standing: Deferred<void> | null][]): Promise<boolean> {
    const { stream } = redis
    this.#hear(redis)
    try {
      await this.#ask(
        redis,
        wanted.map(([channel]) => channel),
      )
    } catch (error) {
      if (this.#closed || redis.status !== 'ready' || redis.stream !== stream) return false
      this.#logger.warn({ error: messageOf(error) }, 'Redis refuses a subscription')
      this.#routes.refused()
      await sleep(REFUSED_PAUSE_MS)
      if (redis.stream === stream) stream.destroy()
      return false
    }
    for (const [channel, standing] of wanted) {
      if (standing === null || this.#wanted.get(channel) !== standing) continue
      this.#wanted.set(channel, null)
      standing.resolve()
    }
    return true
  }

  /** Channels of one sharded command must lie in one slot. */
  async #ask(redis: Redis, channels: string[]): Promise<void> {
    if (this.#routes.isSharded) {
      await Promise.all(channels.map((channel) => redis.ssubscribe(channel)))
      return
    }
    for (let at = 0; at < channels.length; at += CHANNELS_A_COMMAND) {
      await redis.subscribe(...channels.slice(at, at + CHANNELS_A_COMMAND))
    }
  }

  #hear(redis: Redis): void {
    if (this.#heard.has(redis)) return
    this.#heard.add(redis)
    redis.on(this.#routes.isSharded ? 'smessage' : 'message', (channel: string, text: string) => {
      for (const listener of this.#listeners) listener(channel, text)
    })
  }
}
