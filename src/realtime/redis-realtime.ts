import type { EventLog } from './event-log.ts'
import type { RealtimeLogger } from './logger.ts'
import { openRedis } from './redis.ts'
import { createRedisChannels } from './redis-channels.ts'
import { createRedisEventLog } from './redis-event-log.ts'
import { createRedisSignals } from './redis-signals.ts'
import type { Signals } from './signals.ts'

/** The event log and the signals in Redis, and the way to let go of its connections once both are closed. */
export interface RedisRealtime {
  log: EventLog
  signals: Signals
  close(): void
}

/** Opens both, over one connection for commands and one for subscriptions. @throws as createRealtime does. */
export async function openRedisRealtime(url: string, prefix: string, logger: RealtimeLogger): Promise<RedisRealtime> {
  const commands = openRedis(url, 'commands', logger, { enableAutoPipelining: true })
  const subscriber = openRedis(url, 'subscriber', logger)
  const channels = createRedisChannels(subscriber, commands.redis, prefix, logger)
  const closeConnections = () => {
    channels.close()
    commands.close()
    subscriber.close()
  }
  try {
    await Promise.all([commands.ready(), subscriber.ready()])
  } catch (error) {
    closeConnections()
    throw error
  }
  const log = createRedisEventLog(commands, channels, prefix, logger)
  return { log, signals: createRedisSignals(commands, channels, logger), close: closeConnections }
}
