import type { Redis } from 'ioredis'
import { createDeferred, type Deferred, sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { LogUnavailableError } from './event-log.ts'
import type { RealtimeLogger } from './logger.ts'
import type { RedisConnection } from './redis.ts'
import type { PublishCommand } from './redis-scripts.ts'

const CHANNELS_A_COMMAND = 1000
const REFUSED_PAUSE_MS = 1000

/** Decides which connection carries a channel. */
export interface ChannelRoutes {
  /** Whether channels use the sharded commands of a cluster, where a channel belongs to the node of its slot. */
  readonly isSharded: boolean
  /** The connection that subscribes to a channel; null while its node is unknown. */
  connectionOf(channel: string): Redis | null
  /** Calls the listener each time a connection becomes ready, and for all connections when slots have moved. */
  onReady(listener: (redis: Redis) => void): void
  publish(channel: string, text: string): Promise<unknown>
  /** Whether published messages arrive in this process. */
  answers(timeoutMs: number): Promise<boolean>
  /** Resolves once the connections are ready. @throws as RedisConnection.ready does */
  ready(): Promise<void>
  /** Called when Redis refused a channel subscription. */
  refused(): void
  close(): void
}

/** One connection subscribes to all channels; another one publishes. */
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
 * The channels to which this process is subscribed. While the connection lasts, each published message
 * arrives at most once; in a cluster whose slots move, perhaps twice. Payloads are JSON.
 */
export interface RedisChannels {
  /** The command by which scripts publish. */
  readonly command: PublishCommand
  publish(channel: string, payload: object): Promise<void>
  /**
   * Returns a message that a script can publish; null in a cluster, where a script reaches the channels of
   * one node only.
   */
  textFor(channel: string, payload: object): { channel: string; text: string } | null
  /**
   * Resolves when the subscription is active, however long Redis is unreachable. @throws LogUnavailableError
   * if closed before
   */
  subscribe(channel: string, listener: (payload: unknown) => void): Promise<() => void>
  /** Called when the subscriptions of a lost connection are restored. */
  onReconnect(listener: () => void): () => void
  /** Whether published messages arrive in this process. */
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

/** Catches errors of a listener, which would end the process and keep the message from other listeners. */
function guarded(logger: RealtimeLogger, run: () => void): void {
  try {
    run()
  } catch (error) {
    logger.warn({ error: messageOf(error) }, 'a listener on a Redis channel failed')
  }
}

/** A channel with at least one listener in this process. */
interface Channel {
  name: string
  listeners: Set<(payload: unknown) => void>
  /** Resolves when the channel is subscribed for the first time. */
  standing: Deferred<void>
  hasStood: boolean
}

/**
 * Keeps the list of wanted channels and subscribes to all of a connection's channels each time the connection
 * becomes ready. ioredis' own resubscription loses channels if the connection breaks again meanwhile. All
 * listeners of a channel share one subscription.
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

  /** Resolves when the channel is subscribed, with a function that removes the listener. */
  async add(name: string, listener: (payload: unknown) => void): Promise<() => void> {
    if (this.#closed) throw closedError()
    const channel = this.#channels.get(name) ?? this.#open(name)
    // A new function each time, since one listener may be added twice.
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

  /** Returns false if the connection broke meanwhile; the next connection then subscribes to all channels. */
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

  /** Channels of one sharded command must be in the same slot. */
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
