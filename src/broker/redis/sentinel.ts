import { type Redis, type RedisOptions, SentinelConnector } from 'ioredis'
import type { RedisTarget } from '../../lib/redis-url.ts'

/** How long a Sentinel may take to report the master. */
const SENTINEL_TIMEOUT_MS = 1000

/**
 * Returns the options of a connection to the master that Sentinels report. Each reconnect queries the Sentinels
 * again. When they announce a failover, the connection to the former master is closed, even if this master still
 * responds.
 */
export function sentinelOptionsOf({ nodes, isTls, sentinel }: RedisTarget): RedisOptions {
  const { masterName: name, username, password } = sentinel
  return {
    sentinels: nodes,
    name,
    ...(username === null ? {} : { sentinelUsername: username }),
    ...(password === null ? {} : { sentinelPassword: password }),
    ...(isTls ? { sentinelTLS: {}, enableTLSForSentinelMode: true } : {}),
    sentinelCommandTimeout: SENTINEL_TIMEOUT_MS,
    sentinelRetryStrategy: (attempt) => Math.min(25 * attempt, 500),
    failoverDetector: true,
    sentinelReconnectStrategy: (attempt) => Math.min(250 * attempt, 5000),
    Connector: QuietSentinelConnector,
  }
}

type ConnectToSentinel = (...given: unknown[]) => Redis

/**
 * Adds an error listener to the connection on which ioredis receives failover announcements. Without a listener,
 * ioredis would print each error of that connection.
 */
class QuietSentinelConnector extends SentinelConnector {
  constructor(options: unknown) {
    super(options as ConstructorParameters<typeof SentinelConnector>[0])
    const own = this as unknown as { connectToSentinel: ConnectToSentinel }
    const connectToSentinel = own.connectToSentinel.bind(this)
    own.connectToSentinel = (...given) => connectToSentinel(...given).on('error', () => {})
  }
}
