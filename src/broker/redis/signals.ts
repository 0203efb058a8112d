import { sleep } from '../../lib/async.ts'
import { messageOf } from '../../lib/errors.ts'
import type { BrokerLogger } from '../logger.ts'
import type { Signals } from '../signals.ts'
import type { SignalPayload } from '../topics.ts'
import type { RedisChannels } from './channels.ts'
import type { RedisConnection } from './connection.ts'
import type { RedisWriter } from './writer.ts'

/**
 * The maximum number of signals in progress. Further signals are dropped, because so many signals are in progress
 * only if Redis is unreachable.
 */
const MOST_GOING = 10_000
/** How long `close` waits for the last signals. */
const LAST_SIGNALS_MS = 500

interface RedisSignalsParts {
  commands: RedisConnection
  channels: RedisChannels
  /** The writer of the event log. */
  writer: Pick<RedisWriter, 'write'>
}

/** Signals between all processes that share a Redis. */
export function createRedisSignals({ commands, channels, writer }: RedisSignalsParts, logger: BrokerLogger): Signals {
  const going = new Set<Promise<void>>()
  let lost = 0

  async function send(channel: string, payload: SignalPayload): Promise<void> {
    try {
      await commands.call(() => channels.publish(nameOf(channel), payload))
    } catch (error) {
      lost += 1
      if (lost === 1)
        logger.warn({ channel, error: messageOf(error) }, 'could not publish a signal; receivers will poll instead')
      return
    }
    if (lost > 0) logger.info({ lost }, 'signals are published through Redis again')
    lost = 0
  }

  return {
    async publish(channel, payload, beside) {
      const text = channels.textFor(nameOf(channel), payload)
      if (beside !== undefined && text !== null) {
        writer.write(beside, { type: 'signal', ...text }).catch(() => {})
        return
      }
      if (going.size >= MOST_GOING) {
        lost += 1
        return
      }
      const sending = send(channel, payload)
      going.add(sending)
      void sending.finally(() => going.delete(sending))
    },
    subscribe: (channel, listener) =>
      channels.subscribe(nameOf(channel), (payload) => listener(payload as SignalPayload)),
    onReconnect: (listener) => channels.onReconnect(listener),
    async close() {
      if (commands.redis.status === 'ready') await Promise.race([Promise.all(going), sleep(LAST_SIGNALS_MS)])
      channels.close()
    },
  }
}

/** The prefix separates signals from the channels of the event log. */
const nameOf = (channel: string) => `signal:${channel}`
