import { redisNodesOf } from '../lib/redis-url.ts'
import type { EventLog } from './event-log.ts'
import type { RealtimeLogger } from './logger.ts'
import { openRedis, type RedisConnection } from './redis.ts'
import { type ChannelRoutes, createRedisChannels, createRoutes } from './redis-channels.ts'
import { createShardRoutes, openCluster } from './redis-cluster.ts'
import { createRedisEventLog } from './redis-event-log.ts'
import { createRedisSignals } from './redis-signals.ts'
import type { Signals } from './signals.ts'

/** The event log and the signals in Redis, and the way to let go of its connections once both are closed. */
export interface RedisRealtime {
  log: EventLog
  signals: Signals
  close(): void
}

/**
 * Opens both: over one connection for commands and one for subscriptions, or where the URL names several nodes, over the
 * same to each master of their cluster. @throws as createRealtime does.
 */
export async function openRedisRealtime(url: string, prefix: string, logger: RealtimeLogger): Promise<RedisRealtime> {
  const nodes = redisNodesOf(url)
  const { commands, routes, ready } = nodes.length > 1 ? openNodes(nodes, logger) : openOne(url, logger)
  const channels = createRedisChannels(routes, prefix, logger)
  const closeConnections = () => {
    channels.close()
    commands.close()
  }
  try {
    await ready()
  } catch (error) {
    closeConnections()
    throw error
  }
  const log = createRedisEventLog(commands, channels, prefix, logger)
  return { log, signals: createRedisSignals(commands, channels, logger), close: closeConnections }
}

interface Connections {
  commands: RedisConnection
  routes: ChannelRoutes
  ready(): Promise<unknown>
}

function openOne(url: string, logger: RealtimeLogger): Connections {
  const commands = openRedis(url, 'commands', logger, { enableAutoPipelining: true })
  const subscriber = openRedis(url, 'subscriber', logger)
  const routes = createRoutes(subscriber, commands.redis)
  return { commands, routes, ready: () => Promise.all([commands.ready(), subscriber.ready()]) }
}

function openNodes(nodes: readonly string[], logger: RealtimeLogger): Connections {
  const commands = openCluster(nodes, logger)
  const routes = createShardRoutes(commands.redis, nodes[0]!, logger)
  return { commands, routes, ready: () => commands.ready() }
}
