import calculateSlot from 'cluster-key-slot'
import { Cluster, type Redis, type RedisOptions } from 'ioredis'
import { sleep } from '../lib/async.ts'
import type { RealtimeLogger } from './logger.ts'
import { breakWhatHangs, openRedis, optionsOf, type RedisConnection, reportOutages, START_TIMEOUT_MS } from './redis.ts'
import { answersWithin, becomesReady, createRedisCalls, isRefusal } from './redis-calls.ts'
import type { ChannelRoutes } from './redis-channels.ts'

/** How often the map of the cluster is read again: who moves slots does not tell. */
const MAP_INTERVAL_MS = 5000
/** The same while a master is away. */
const LOST_MAP_INTERVAL_MS = 250

/** Opens connections for commands to all masters of the cluster that these nodes belong to, by one URL each. */
export function openCluster(urls: readonly string[], logger: RealtimeLogger): RedisConnection & { redis: Cluster } {
  const cluster = new Cluster(
    urls.map((url) => ({ host: new URL(url).hostname, port: Number(new URL(url).port) || 6379 })),
    {
      redisOptions: { ...optionsOf('commands'), ...credentialsOf(urls[0]!) },
      enableOfflineQueue: false,
      slotsRefreshInterval: MAP_INTERVAL_MS,
      slotsRefreshTimeout: 2000,
      clusterRetryStrategy: (attempt) => Math.min(25 * attempt, 500),
      retryDelayOnFailover: 100,
      retryDelayOnClusterDown: 100,
    },
  )
  cluster.setMaxListeners(0)
  const stop = new AbortController()
  const { lastFault } = reportOutages(cluster, 'commands', logger, stop.signal)
  let nodeFault: string | null = null
  cluster.on('node error', (error: Error) => {
    nodeFault = error.message
  })
  void breakWhatHangs(() => cluster.nodes('all'), stop.signal)
  const masters = () => new Set(cluster.slots.flatMap((nodes) => nodes[0] ?? []))
  return {
    redis: cluster,
    ...createRedisCalls(cluster, logger, stop.signal),
    async ready() {
      const deadline = Date.now() + START_TIMEOUT_MS
      while (cluster.status !== 'ready' && Date.now() < deadline && !isRefusal(nodeFault)) {
        await becomesReady(cluster, deadline, stop.signal)
      }
      if (cluster.status === 'ready') return
      const nodes = urls.map((url) => new URL(url).host).join(',')
      throw new Error(
        `REDIS_URL: the cluster at ${nodes} cannot be used: ${nodeFault ?? lastFault() ?? 'it does not answer'}`,
      )
    },
    async answers(timeoutMs) {
      if (cluster.status !== 'ready') return false
      const wanted = masters()
      const found = cluster.nodes('all').filter((node) => wanted.has(keyOf(node)))
      const answers = await Promise.all(found.map((node) => answersWithin(node, timeoutMs)))
      return found.length === wanted.size && answers.every(Boolean)
    },
    close() {
      stop.abort()
      cluster.disconnect()
    },
  }
}

/** What all nodes of a cluster take, from the URL of one of them. */
function credentialsOf(url: string): RedisOptions {
  const { username, password, protocol } = new URL(url)
  return {
    ...(username === '' ? {} : { username: decodeURIComponent(username) }),
    ...(password === '' ? {} : { password: decodeURIComponent(password) }),
    ...(protocol === 'rediss:' ? { tls: {} } : {}),
  }
}

const keyOf = ({ options }: Redis) => `${options.host}:${options.port}`

/**
 * The channels of a cluster lie where their slot lies: one connection for each master that is listened to, by sharded pub/sub.
 * ioredis has its own, which does not tell whether a subscription stands.
 */
export function createShardRoutes(cluster: Cluster, url: string, logger: RealtimeLogger): ChannelRoutes {
  const credentials = credentialsOf(url)
  const connections = new Map<string, RedisConnection & { readonly redis: Redis }>()
  const listeners = new Set<(redis: Redis) => void>()
  const stop = new AbortController()
  let map = ''

  function connectionTo(key: string): Redis {
    const known = connections.get(key)
    if (known) return known.redis
    const at = key.lastIndexOf(':')
    const place = { host: key.slice(0, at), port: Number(key.slice(at + 1)) }
    const opened = openRedis(null, 'subscriber', logger, { ...credentials, ...place })
    connections.set(key, opened)
    opened.redis.on('ready', () => {
      for (const listener of listeners) listener(opened.redis)
    })
    opened.redis.on('close', () => void findWhileAway(key, opened.redis))
    return opened.redis
  }

  /** A master that is lost has perhaps a successor. */
  async function findWhileAway(key: string, redis: Redis): Promise<void> {
    while (!stop.signal.aborted && connections.get(key)?.redis === redis && redis.status !== 'ready') {
      cluster.refreshSlotsCache()
      await sleep(LOST_MAP_INTERVAL_MS, stop.signal)
    }
  }

  /** Lets go of who is no master any more, and listens anew where slots have moved. */
  function follow(): void {
    const owners = cluster.slots.flatMap((nodes) => nodes[0] ?? [])
    const next = owners.join()
    if (next === map) return
    map = next
    const masters = new Set(owners)
    for (const [key, connection] of connections) {
      if (masters.has(key)) continue
      connections.delete(key)
      connection.close()
    }
    for (const key of masters) {
      const redis = connectionTo(key)
      if (redis.status === 'ready') for (const listener of listeners) listener(redis)
    }
  }

  cluster.on('refresh', follow)
  return {
    isSharded: true,
    connectionOf(channel) {
      const key = cluster.slots[calculateSlot(channel)]?.[0]
      return key === undefined ? null : connectionTo(key)
    },
    onReady: (listener) => void listeners.add(listener),
    publish: (channel, text) => cluster.spublish(channel, text),
    async answers(timeoutMs) {
      const all = await Promise.all([...connections.values()].map((connection) => connection.answers(timeoutMs)))
      return all.length > 0 && all.every(Boolean)
    },
    refused: () => cluster.refreshSlotsCache(),
    close() {
      stop.abort()
      cluster.off('refresh', follow)
      for (const connection of connections.values()) connection.close()
    },
  }
}
