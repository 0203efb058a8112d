import type { Socket } from 'node:net'
import { RedisPubSub } from 'graphql-redis-subscriptions'
import type { Redis } from 'ioredis'
import { createDeferred, type Deferred, sleep } from '../../lib/async.ts'
import { messageOf } from '../../lib/errors.ts'
import { LogUnavailableError } from '../log.ts'
import type { BrokerLogger } from '../logger.ts'
import type { ChannelRoutes } from './routes.ts'

/**
 * `RedisPubSub` of graphql-redis-subscriptions 2.7.0, with workarounds for the following faults of this package and of
 * ioredis 5.11. Comments below refer to the faults by number. For each fault, test/broker/pub-sub-workarounds.test.ts
 * has a test that fails without the workaround.
 *
 * 1. A rejected SUBSCRIBE also rejects an inner promise that nobody handles, which ends the process. RedisPubSub does
 *    not retry the subscription.
 * 2. RedisPubSub does not handle the rejection of UNSUBSCRIBE, which ends the process if the connection is lost.
 * 3. RedisPubSub sends a PUNSUBSCRIBE after each UNSUBSCRIBE, which some services refuse
 *    (davidyaha/graphql-redis-subscriptions#654).
 * 4. A listener that throws ends the process, and the other listeners miss the message.
 * 5. If a listener is removed while a message is delivered, the delivery throws, which ends the process.
 * 6. Ending a subscription twice throws.
 * 7. A message that is not JSON is passed to the listeners as a string.
 * 8. ioredis restores subscriptions, but loses them if the connection breaks again in the meantime. It does not handle
 *    a refusal (redis/ioredis#2187), and does not report when the subscriptions are active.
 * 9. Closing RedisPubSub leaves pending subscriptions pending, and closes the publishing connection, which other code
 *    also uses.
 *
 * RedisPubSub also drops messages that arrive in the same chunk as the confirmation of their channel's subscription.
 * This needs no workaround, because such a message was published before `subscribe` resolved.
 */
export interface SafePubSub {
  publish(channel: string, payload: object): Promise<void>
  /**
   * Resolves when the subscription is active. While Redis is unreachable, the promise stays pending.
   * @throws LogUnavailableError if the pub/sub is closed first
   */
  subscribe(channel: string, listener: (payload: object) => void): Promise<() => void>
  close(): void
}

/** `onRestored` is called when the subscriptions of a lost connection are active again. */
export function createSafePubSub(routes: ChannelRoutes, logger: BrokerLogger, onRestored: () => void): SafePubSub {
  const closed = new AbortController()
  const pending = new Set<Deferred<() => void>>()
  const pubSub = new RedisPubSub({
    publisher: routes as unknown as Redis,
    subscriber: new RestoringSubscriber(routes, logger, closed.signal, onRestored) as unknown as Redis,
  })

  return {
    publish: (channel, payload) => pubSub.publish(channel, payload),
    subscribe(channel, listener) {
      if (closed.signal.aborted) return Promise.reject(closedError())
      const active = createDeferred<() => void>()
      pending.add(active)
      let isListening = true
      const subscribed = pubSub.subscribe(channel, (payload: unknown) => {
        if (!isListening) return
        if (typeof payload !== 'object' || payload === null) {
          logger.warn({ channel }, 'ignored a Redis channel message that is not JSON') // Fault 7
          return
        }
        try {
          listener(payload)
        } catch (error) {
          logger.warn({ channel, error: messageOf(error) }, 'a listener on a Redis channel failed') // Fault 4
        }
      })
      void subscribed.then((id) => {
        pending.delete(active)
        active.resolve(() => {
          if (!isListening) return // Fault 6
          isListening = false
          queueMicrotask(() => pubSub.unsubscribe(id)) // Fault 5
        })
      })
      return active.promise
    },
    close() {
      closed.abort()
      for (const { reject } of pending) reject(closedError()) // Fault 9
      pending.clear()
    },
  }
}

const closedError = () => new LogUnavailableError('The connection to Redis is closed.')

const CHANNELS_A_COMMAND = 1000
const REFUSED_PAUSE_MS = 1000

/** A channel that RedisPubSub wants to be subscribed to. */
interface Wanted {
  /** Resolves when the subscription becomes active for the first time. */
  active: Deferred<void>
  /** The stream of the connection on which the subscription is active. Each reconnect opens a new stream. */
  stream: Socket | null
}

type NamedWanted = readonly [channel: string, wanted: Wanted]

/**
 * Takes the role of RedisPubSub's ioredis subscriber. RedisPubSub calls the methods `on`, `subscribe`,
 * `unsubscribe` and `punsubscribe`. No call fails: `subscribe` calls back once the subscription is active. Each
 * time a connection becomes ready, this class subscribes to all channels of the connection.
 */
class RestoringSubscriber {
  readonly #routes: ChannelRoutes
  readonly #logger: BrokerLogger
  readonly #closed: AbortSignal
  readonly #onRestored: () => void
  readonly #wanted = new Map<string, Wanted>()
  readonly #seen = new WeakSet<Redis>()
  readonly #retrying = new WeakSet<Redis>()
  #listener: (channel: string, text: string) => void = () => {}

  constructor(routes: ChannelRoutes, logger: BrokerLogger, closed: AbortSignal, onRestored: () => void) {
    this.#routes = routes
    this.#logger = logger
    this.#closed = closed
    this.#onRestored = onRestored
    routes.onReady((redis) => void this.#restore(redis))
  }

  on(event: 'message' | 'pmessage', listener: (channel: string, text: string) => void): this {
    if (event === 'message') this.#listener = listener
    return this
  }

  /** Fault 1: never calls back with an error. */
  subscribe(channel: string, onActive: (error: null) => void): void {
    const wanted: Wanted = { active: createDeferred(), stream: null }
    void wanted.active.promise.then(() => onActive(null))
    this.#wanted.set(channel, wanted)
    const redis = this.#routes.connectionOf(channel)
    if (redis?.status === 'ready') void this.#subscribe(redis, [[channel, wanted]])
  }

  unsubscribe(channel: string): void {
    this.#wanted.delete(channel)
    const redis = this.#routes.connectionOf(channel)
    if (redis === null) return
    const left = this.#routes.isSharded ? redis.sunsubscribe(channel) : redis.unsubscribe(channel)
    left.catch(() => {}) // Fault 2
  }

  /** Fault 3: does nothing, because no patterns are used. */
  punsubscribe(): void {}

  /** Fault 8: restores the subscriptions of a connection that has become ready. */
  async #restore(redis: Redis): Promise<void> {
    const missing = [...this.#wanted].filter(
      ([channel, { stream }]) => stream !== redis.stream && this.#routes.connectionOf(channel) === redis,
    )
    const wereActive = missing.filter(([, { stream }]) => stream !== null).map(([, wanted]) => wanted)
    const { stream } = redis
    await this.#subscribe(redis, missing)
    if (wereActive.some((wanted) => wanted.stream === stream)) this.#onRestored()
  }

  /**
   * Subscribes to channels. Stops if the connection breaks in the meantime, because the next connection subscribes
   * to all channels again.
   */
  async #subscribe(redis: Redis, channels: readonly NamedWanted[]): Promise<void> {
    const { stream } = redis
    this.#listenTo(redis)
    // A sharded command may contain only channels of the same slot.
    const refusal = await this.#ask(redis, stream, channels, this.#routes.isSharded ? 1 : CHANNELS_A_COMMAND)
    if (refusal === undefined || this.#closed.aborted || redis.status !== 'ready' || redis.stream !== stream) return
    this.#logger.warn(refusal, 'Redis refused a channel subscription')
    this.#routes.refused()
    void this.#retry(redis, stream)
  }

  /** Sends all commands at once, with `size` channels each. Returns the error if Redis refused a channel. */
  async #ask(
    redis: Redis,
    stream: Socket,
    channels: readonly NamedWanted[],
    size: number,
  ): Promise<object | undefined> {
    const groups = Array.from({ length: Math.ceil(channels.length / size) }, (_, index) =>
      channels.slice(index * size, (index + 1) * size),
    )
    const refusals = await Promise.all(groups.map((group) => this.#askOnce(redis, stream, group)))
    return refusals.find((refusal) => refusal !== undefined)
  }

  async #askOnce(redis: Redis, stream: Socket, channels: readonly NamedWanted[]): Promise<object | undefined> {
    const names = channels.map(([channel]) => channel)
    try {
      await (this.#routes.isSharded ? redis.ssubscribe(...names) : redis.subscribe(...names))
    } catch (error) {
      if (names.length === 1 || redis.stream !== stream) return { channel: names[0], error: messageOf(error) }
      // If Redis refuses one channel, it refuses the whole command.
      return this.#ask(redis, stream, channels, 1)
    }
    for (const [, wanted] of channels) {
      wanted.stream = stream
      wanted.active.resolve()
    }
    return undefined
  }

  async #retry(redis: Redis, stream: Socket): Promise<void> {
    if (this.#retrying.has(redis)) return
    this.#retrying.add(redis)
    await sleep(REFUSED_PAUSE_MS, this.#closed)
    this.#retrying.delete(redis)
    if (!this.#closed.aborted && redis.status === 'ready' && redis.stream === stream) await this.#restore(redis)
  }

  #listenTo(redis: Redis): void {
    if (this.#seen.has(redis)) return
    this.#seen.add(redis)
    redis.on(this.#routes.isSharded ? 'smessage' : 'message', this.#listener)
  }
}
