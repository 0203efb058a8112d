import type { Redis } from 'ioredis'
import type { RedisConnection } from './connection.ts'

/** Decides which connection subscribes to a channel. */
export interface ChannelRoutes {
  /** Whether channels use the sharded commands of a cluster, in which each channel belongs to the node of its slot. */
  readonly isSharded: boolean
  /** The connection that subscribes to a channel; null while its node is unknown. */
  connectionOf(channel: string): Redis | null
  /** Calls the listener each time a connection becomes ready, and for all connections when slots have moved. */
  onReady(listener: (redis: Redis) => void): void
  publish(channel: string, text: string): Promise<unknown>
  /** Whether the subscribing connections respond within `timeoutMs`. */
  answers(timeoutMs: number): Promise<boolean>
  /** Resolves once the connections are ready. @throws as RedisConnection.ready does */
  ready(): Promise<void>
  /** Must be called when Redis has refused the subscription to a channel. */
  refused(): void
  close(): void
}

/** Creates routes in which one connection subscribes to all channels and another one publishes. */
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
