import { parseRedisUrl, type RedisTarget } from '../../lib/redis-url.ts'
import type { EventLog } from '../log.ts'
import type { BrokerLogger } from '../logger.ts'
import type { Signals } from '../signals.ts'
import { createRedisChannels } from './channels.ts'
import { openCluster, ShardRoutes } from './cluster.ts'
import { openRedis, type RedisConnection } from './connection.ts'
import { createRedisEventLog } from './log.ts'
import { type ChannelRoutes, createRoutes } from './routes.ts'
import { createRedisSignals } from './signals.ts'
import { checkRedis } from './start-check.ts'

/**
 * The event log and the signals in Redis. Both must be closed before `close` is called, because it closes the
 * connections.
 */
export interface RedisBroker {
  log: EventLog
  signals: Signals
  /** The command connection, for rate limits and counters that all processes share. */
  redis: RedisConnection['redis']
  isAway(): boolean
  waiting(): number
  close(): void
}

export interface RedisBrokerOptions {
  url: string
  prefix: string
  logger: BrokerLogger
  patienceMs: number
}

/**
 * Opens the event log and the signals, with one connection for commands and one for subscriptions. If the URL lists
 * several nodes, opens two such connections to each master of the cluster.
 * @throws as createBroker does
 */
export async function openRedisBroker(options: RedisBrokerOptions): Promise<RedisBroker> {
  const { url, prefix, logger, patienceMs } = options
  const target = parseRedisUrl(url)
  const { commands, routes } = target.type === 'cluster' ? openNodes(target, logger) : openOne(target, logger)
  const channels = createRedisChannels(routes, prefix, logger)
  const closeConnections = () => {
    channels.close()
    commands.close()
  }
  const { log, writer, probe } = createRedisEventLog(commands, channels, { prefix, logger, patienceMs, routes })
  try {
    // ioredis does not have the list of a cluster's masters before `ready`.
    await commands.ready()
    await routes.ready()
    await checkRedis(target, commands.redis, probe)
  } catch (error) {
    closeConnections()
    throw error
  }
  const signals = createRedisSignals({ commands, channels, writer }, logger)
  const { redis } = commands
  return {
    log,
    signals,
    redis,
    isAway: () => redis.status !== 'ready' || writer.isAway,
    waiting: () => writer.waiting,
    close: closeConnections,
  }
}

interface Connections {
  commands: RedisConnection
  routes: ChannelRoutes
}

function openOne(target: RedisTarget, logger: BrokerLogger): Connections {
  const commands = openRedis(target, 'commands', logger, { enableAutoPipelining: true })
  const subscriber = openRedis(target, 'subscriber', logger)
  return { commands, routes: createRoutes(subscriber, commands.redis) }
}

function openNodes(target: RedisTarget, logger: BrokerLogger): Connections {
  const commands = openCluster(target, logger)
  return { commands, routes: new ShardRoutes(commands.redis, target, logger) }
}
