import { messageOf } from '../lib/errors.ts'
import type { RealtimeLogger } from './logger.ts'
import type { RedisConnection } from './redis.ts'
import type { RedisChannels } from './redis-channels.ts'
import type { Signals } from './signals.ts'
import type { SignalPayload } from './topics.ts'

/** Signals between all processes that share a Redis. */
export function createRedisSignals(
  commands: RedisConnection,
  channels: RedisChannels,
  logger: RealtimeLogger,
): Signals {
  let lost = 0

  return {
    async publish(channel, payload) {
      try {
        await commands.call(() => channels.publish(nameOf(channel), payload))
      } catch (error) {
        lost += 1
        if (lost === 1) logger.warn({ channel, error: messageOf(error) }, 'a signal is lost')
        return
      }
      if (lost > 0) logger.info({ lost }, 'signals go out again')
      lost = 0
    },
    subscribe: (channel, listener) =>
      channels.subscribe(nameOf(channel), (payload) => listener(payload as SignalPayload)),
    onReconnect: (listener) => channels.onReconnect(listener),
    async close() {
      channels.close()
    },
  }
}

/** Apart from the channels of the event log. */
const nameOf = (channel: string) => `signal:${channel}`
