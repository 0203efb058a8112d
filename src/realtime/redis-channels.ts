import type { Redis } from 'ioredis'
import { createDeferred, type Deferred, sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { LogUnavailableError } from './event-log.ts'
import type { RealtimeLogger } from './logger.ts'
import type { RedisConnection } from './redis.ts'
import type { PublishCommand } from './redis-scripts.ts'

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
  readonly command: PublishCommand
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
  const subscriptions = new Subscriptions(routes, logger, () => {
    for (const listener of reconnectListeners) guarded(logger, listener)
  })
  return {
    command: routes.isSharded ? 'SPUBLISH' : 'PUBLISH',
    async publish(channel, payload) {
      await routes.publish(prefix + channel, JSON.stringify(payload))
    },
    textFor: (channel, payload) =>
      routes.isSharded ? null : { channel: prefix + channel, text: JSON.stringify(payload) },
    subscribe: (channel, listener) => subscriptions.add(prefix + channel, listener),
    onReconnect(listener) {
      reconnectListeners.add(listener)
      return () => reconnectListeners.delete(listener)
    },
    answers: (timeoutMs) => routes.answers(timeoutMs),
    close() {
      subscriptions.close()
      routes.close()
    },
  }
}

/** One listener that throws would end the process, and others would miss the message. */
function guarded(logger: RealtimeLogger, run: () => void): void {
  try {
    run()
  } catch (error) {
    logger.warn({ error: messageOf(error) }, 'a listener on a Redis channel failed')
  }
}

/** A channel that somebody here listens to. */
interface Channel {
  name: string
  listeners: Set<(payload: unknown) => void>
  /** Resolves when it stands, for the first time. */
  standing: Deferred<void>
  hasStood: boolean
}

/**
 * Keeps the wanted channels itself and subscribes to all of a connection's each time that is ready: ioredis' own way loses
 * channels when the connection breaks again while it does so. Whoever listens to one channel shares its subscription.
 */
class Subscriptions {
  readonly #routes: ChannelRoutes
  readonly #logger: RealtimeLogger
  readonly #onRestored: () => void
  readonly #channels = new Map<string, Channel>()
  readonly #heard = new WeakSet<Redis>()
  #closed = false

  constructor(routes: ChannelRoutes, logger: RealtimeLogger, onRestored: () => void) {
    this.#routes = routes
    this.#logger = logger
    this.#onRestored = onRestored
    routes.onReady((redis) => void this.#restore(redis))
  }

  /** Resolves with the way to leave it when the channel stands. */
  async add(name: string, listener: (payload: unknown) => void): Promise<() => void> {
    if (this.#closed) throw closedError()
    const channel = this.#channels.get(name) ?? this.#open(name)
    // Of its own: one listener may be added twice.
    const own = (payload: unknown) => listener(payload)
    channel.listeners.add(own)
    await channel.standing.promise
    return () => this.#leave(channel, own)
  }

  close(): void {
    this.#closed = true
    for (const { standing } of this.#channels.values()) standing.reject(closedError())
  }

  #open(name: string): Channel {
    const channel: Channel = { name, listeners: new Set(), standing: createDeferred(), hasStood: false }
    this.#channels.set(name, channel)
    const redis = this.#routes.connectionOf(name)
    if (redis?.status === 'ready') void this.#subscribe(redis, [channel])
    return channel
  }

  #leave({ name, listeners }: Channel, own: (payload: unknown) => void): void {
    if (!listeners.delete(own) || listeners.size > 0) return
    this.#channels.delete(name)
    const redis = this.#routes.connectionOf(name)
    if (redis === null) return
    const left = this.#routes.isSharded ? redis.sunsubscribe(name) : redis.unsubscribe(name)
    left.catch(() => {})
  }

  async #restore(redis: Redis): Promise<void> {
    const wanted = [...this.#channels.values()].filter(({ name }) => this.#routes.connectionOf(name) === redis)
    const stood = wanted.some(({ hasStood }) => hasStood)
    if ((await this.#subscribe(redis, wanted)) && stood) this.#onRestored()
  }

  /** False when the connection broke meanwhile: then the next one subscribes to everything. */
  async #subscribe(redis: Redis, wanted: Channel[]): Promise<boolean> {
    const { stream } = redis
    this.#hear(redis)
    try {
      await this.#ask(
        redis,
        wanted.map(({ name }) => name),
      )
    } catch (error) {
      if (this.#closed || redis.status !== 'ready' || redis.stream !== stream) return false
      this.#logger.warn({ error: messageOf(error) }, 'Redis refused a channel subscription')
      this.#routes.refused()
      await sleep(REFUSED_PAUSE_MS)
      if (redis.stream === stream) stream.destroy()
      return false
    }
    for (const channel of wanted) {
      channel.hasStood = true
      channel.standing.resolve()
    }
    return true
  }

  /** Channels of one sharded command must lie in one slot. */
  async #ask(redis: Redis, names: string[]): Promise<void> {
    if (this.#routes.isSharded) {
      await Promise.all(names.map((name) => redis.ssubscribe(name)))
      return
    }
    for (let at = 0; at < names.length; at += CHANNELS_A_COMMAND) {
      await redis.subscribe(...names.slice(at, at + CHANNELS_A_COMMAND))
    }
  }

  #hear(redis: Redis): void {
    if (this.#heard.has(redis)) return
    this.#heard.add(redis)
    redis.on(this.#routes.isSharded ? 'smessage' : 'message', (name: string, text: string) => {
      const channel = this.#channels.get(name)
      if (channel !== undefined) this.#deliver(channel, text)
    })
  }

  #deliver({ name, listeners }: Channel, text: string): void {
    let payload: unknown
    try {
      payload = JSON.parse(text)
    } catch {
      this.#logger.warn({ channel: name }, 'ignored a message on a Redis channel that is not JSON')
      return
    }
    for (const listener of listeners) guarded(this.#logger, () => listener(payload))
  }
}

const closedError = () => new LogUnavailableError('The connection to Redis is closed.')
