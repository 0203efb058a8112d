import { redisNodesOf } from '../lib/redis-url.ts'
import type { EventLog } from './event-log.ts'
import type { RealtimeLogger } from './logger.ts'
import { openRedis, type RedisConnection } from './redis.ts'
import { type ChannelRoutes, createRedisChannels, createRoutes } from './redis-channels.ts'
import { openCluster, ShardRoutes } from './redis-cluster.ts'
import { createRedisEventLog } from './redis-event-log.ts'
import { createRedisSignals } from './redis-signals.ts'
import type { Signals } from './signals.ts'

/** The event log and the signals in Redis. Close both before `close`, which closes the connections. */
export interface RedisRealtime {
  log: EventLog
  signals: Signals
  /** For rate limits and counters that all processes share. */
  redis: RedisConnection['redis']
  isAway(): boolean
  waiting(): number
  close(): void
}

export interface RedisRealtimeOptions {
  url: string
  prefix: string
  logger: RealtimeLogger
  patienceMs: number
}

/**
 * Opens the event log and the signals, with one connection for commands and one for subscriptions; if the URL
 * names several nodes, with both to each master of the cluster.
 * @throws as createRealtime does
 */
export async function openRedisRealtime(options: RedisRealtimeOptions): Promise<RedisRealtime> {
  const { url, prefix, logger, patienceMs } = options
  const nodes = redisNodesOf(url)
  const { commands, routes } = nodes.length > 1 ? openNodes(nodes, logger) : openOne(url, logger)
  const channels = createRedisChannels(routes, prefix, logger)
  const closeConnections = () => {
    channels.close()
    commands.close()
  }
  try {
    // A cluster's masters are known only after this.
    await commands.ready()
    await routes.ready()
  } catch (error) {
    closeConnections()
    throw error
  }
  const { log, writer } = createRedisEventLog(commands, channels, { prefix, logger, patienceMs })
  const signals = createRedisSignals({ commands, channels, writer }, logger)
  const { redis } = commands
  return {
    ...{ log, signals, redis },
    isAway: () => redis.status !== 'ready' || writer.isAway,
    waiting: () => writer.waiting,
    close: closeConnections,
  }
}

interface Connections {
  commands: RedisConnection
  routes: ChannelRoutes
}

function openOne(url: string, logger: RealtimeLogger): Connections {
  const commands = openRedis(url, 'commands', logger, { enableAutoPipelining: true })
  const subscriber = openRedis(url, 'subscriber', logger)
  return { commands, routes: createRoutes(subscriber, commands.redis) }
}

function openNodes(nodes: readonly string[], logger: RealtimeLogger): Connections {
  const commands = openCluster(nodes, logger)
  return { commands, routes: new ShardRoutes(commands.redis, nodes[0]!, logger) }
}
