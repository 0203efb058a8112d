import { messageOf } from '../../lib/errors.ts'
import type { BrokerLogger } from '../logger.ts'
import { createSafePubSub } from './pub-sub-workarounds.ts'
import type { ChannelRoutes } from './routes.ts'
import type { PublishCommand } from './scripts.ts'

/**
 * The channels that this process subscribes to. While the connection lasts, each published message arrives at most
 * once. While slots of a cluster move, it may arrive twice. Payloads are JSON.
 */
export interface RedisChannels {
  /** The Redis command with which scripts publish. */
  readonly command: PublishCommand
  publish(channel: string, payload: object): Promise<void>
  /**
   * Returns a message that a script can publish. Returns null in a cluster, where a script can publish only to
   * channels of its own node.
   */
  textFor(channel: string, payload: object): { channel: string; text: string } | null
  /**
   * Resolves when the subscription is active. While Redis is unreachable, the promise stays pending.
   * @throws LogUnavailableError if the channels are closed first
   */
  subscribe(channel: string, listener: (payload: unknown) => void): Promise<() => void>
  /** Calls the listener when the subscriptions of a lost connection have been restored. */
  onReconnect(listener: () => void): () => void
  /** Whether the subscribing connections respond within `timeoutMs`. */
  answers(timeoutMs: number): Promise<boolean>
  close(): void
}

export function createRedisChannels(routes: ChannelRoutes, prefix: string, logger: BrokerLogger): RedisChannels {
  const reconnectListeners = new Set<() => void>()
  const pubSub = createSafePubSub(routes, logger, () => {
    for (const listener of reconnectListeners) {
      try {
        listener()
      } catch (error) {
        logger.warn({ error: messageOf(error) }, 'a listener for reconnects to Redis failed')
      }
    }
  })
  return {
    command: routes.isSharded ? 'SPUBLISH' : 'PUBLISH',
    publish: (channel, payload) => pubSub.publish(prefix + channel, payload),
    textFor: (channel, payload) =>
      routes.isSharded ? null : { channel: prefix + channel, text: JSON.stringify(payload) },
    subscribe: (channel, listener) => pubSub.subscribe(prefix + channel, listener),
    onReconnect(listener) {
      reconnectListeners.add(listener)
      return () => reconnectListeners.delete(listener)
    },
    answers: (timeoutMs) => routes.answers(timeoutMs),
    close() {
      pubSub.close()
      routes.close()
    },
  }
}
