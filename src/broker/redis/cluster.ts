import { createRequire } from 'node:module'
import { Cluster, type Redis } from 'ioredis'
import { sleep } from '../../lib/async.ts'
import type { RedisTarget } from '../../lib/redis-url.ts'
import type { BrokerLogger } from '../logger.ts'
import {
  becomesReady,
  breakWhatHangs,
  createRedisCalls,
  openRedis,
  optionsOf,
  type RedisConnection,
  START_TIMEOUT_MS,
  withTimeout,
} from './connection.ts'
import { createOutageLog } from './outages.ts'
import { isRefusal, unusable } from './refusals.ts'
import type { ChannelRoutes } from './routes.ts'

/** Returns the slot of a key or channel. The package is loaded with `require` because it has no types. */
const calculateSlot: (key: string) => number = createRequire(import.meta.url)('cluster-key-slot')

/** How often the slot map is refreshed. Redis does not announce that slots have moved. */
const MAP_INTERVAL_MS = 5000
/** How often the slot map is refreshed while a master is unreachable. */
const LOST_MAP_INTERVAL_MS = 250

/** Opens command connections to all masters of a cluster. The target lists some of the cluster's nodes. */
export function openCluster(target: RedisTarget, logger: BrokerLogger): RedisConnection & { redis: Cluster } {
  const stop = new AbortController()
  const outages = createOutageLog('commands', logger, stop.signal)
  const cluster = new Cluster(target.nodes, {
    redisOptions: { ...optionsOf(target, 'commands'), reconnectOnError: outages.reconnectsOn },
    enableOfflineQueue: false,
    slotsRefreshInterval: MAP_INTERVAL_MS,
    slotsRefreshTimeout: 2000,
    clusterRetryStrategy: (attempt) => Math.min(25 * attempt, 500),
    retryDelayOnFailover: 100,
    retryDelayOnClusterDown: 100,
  })
  cluster.setMaxListeners(0)
  outages.watch(cluster)
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
      if (cluster.status !== 'ready') throw unusable(target, nodeFault ?? outages.lastFault())
    },
    async answers(timeoutMs) {
      if (cluster.status !== 'ready') return false
      const wanted = masters()
      const found = cluster.nodes('all').filter((node) => wanted.has(keyOf(node)))
      // ioredis connects to a node when it is first used, so a ping may have to open the connection.
      const pings = await Promise.allSettled(found.map((node) => withTimeout(node.ping(), timeoutMs)))
      return found.length === wanted.size && pings.every(({ status }) => status === 'fulfilled')
    },
    close() {
      stop.abort()
      cluster.disconnect()
    },
  }
}

const keyOf = ({ options }: Redis) => `${options.host}:${options.port}`

/**
 * Routes each channel to the master of its slot, with one connection per master and sharded pub/sub. Replaces the
 * implementation in ioredis, which does not report whether a subscription is active.
 */
export class ShardRoutes implements ChannelRoutes {
  readonly isSharded = true
  readonly #cluster: Cluster
  readonly #target: RedisTarget
  readonly #logger: BrokerLogger
  readonly #connections = new Map<string, RedisConnection & { readonly redis: Redis }>()
  readonly #listeners: ((redis: Redis) => void)[] = []
  readonly #stop = new AbortController()
  /** The master of each slot at the last refresh. */
  #map = ''

  constructor(cluster: Cluster, target: RedisTarget, logger: BrokerLogger) {
    this.#cluster = cluster
    this.#target = target
    this.#logger = logger
    cluster.on('refresh', this.#follow)
  }

  connectionOf(channel: string): Redis | null {
    const key = this.#cluster.slots[calculateSlot(channel)]?.[0]
    return key === undefined ? null : this.#connectionTo(key)
  }

  onReady(listener: (redis: Redis) => void): void {
    this.#listeners.push(listener)
  }

  publish(channel: string, text: string): Promise<unknown> {
    return this.#cluster.spublish(channel, text)
  }

  async answers(timeoutMs: number): Promise<boolean> {
    const all = await Promise.all([...this.#connections.values()].map((one) => one.answers(timeoutMs)))
    return all.length > 0 && all.every(Boolean)
  }

  async ready(): Promise<void> {
    await Promise.all([...this.#connections.values()].map((one) => one.ready()))
  }

  refused(): void {
    this.#cluster.refreshSlotsCache()
  }

  close(): void {
    this.#stop.abort()
    this.#cluster.off('refresh', this.#follow)
    for (const connection of this.#connections.values()) connection.close()
  }

  #connectionTo(key: string): Redis {
    const known = this.#connections.get(key)
    if (known) return known.redis
    const at = key.lastIndexOf(':')
    const node = { host: key.slice(0, at), port: Number(key.slice(at + 1)) }
    const opened = openRedis({ ...this.#target, type: 'server', nodes: [node] }, 'subscriber', this.#logger)
    this.#connections.set(key, opened)
    opened.redis.on('ready', () => this.#tell(opened.redis))
    opened.redis.on('close', () => void this.#findSuccessor(key, opened.redis))
    return opened.redis
  }

  /** Refreshes the slot map until the unreachable master is back or has been replaced. */
  async #findSuccessor(key: string, redis: Redis): Promise<void> {
    const isAway = () => this.#connections.get(key)?.redis === redis && redis.status !== 'ready'
    while (!this.#stop.signal.aborted && isAway()) {
      this.#cluster.refreshSlotsCache()
      await sleep(LOST_MAP_INTERVAL_MS, this.#stop.signal)
    }
  }

  /** Closes connections to former masters. If slots have moved, subscribes to all channels again. */
  readonly #follow = (): void => {
    const owners = this.#cluster.slots.flatMap((nodes) => nodes[0] ?? [])
    const map = owners.join()
    if (map === this.#map) return
    this.#map = map
    const masters = new Set(owners)
    for (const [key, connection] of this.#connections) {
      if (masters.has(key)) continue
      this.#connections.delete(key)
      connection.close()
    }
    for (const key of masters) {
      const redis = this.#connectionTo(key)
      if (redis.status === 'ready') this.#tell(redis)
    }
  }

  #tell(redis: Redis): void {
    for (const listener of this.#listeners) listener(redis)
  }
}
