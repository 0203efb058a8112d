import { Redis } from 'ioredis'
import { freePort } from './free-port.ts'
import { startThrowawayRedis, type ThrowawayRedis } from './throwaway-redis.ts'
import { until } from './until.ts'

const SLOTS = 16_384
const MASTERS = 3

/** A cluster for one test: three masters with a replica each, in six processes. */
export interface ThrowawayCluster {
  /** The URL of the initial masters: `redis://a:7000,b:7001,c:7002`. */
  url: string
  nodes: ThrowawayRedis[]
  /** A connection to each node, in their order. */
  clients: Redis[]
  /** Returns the node that currently owns the slot of a key. */
  ownerOf(key: string): Promise<number>
  /** Moves the slot of a key, with all its keys, to the next master. */
  moveSlotOf(key: string): Promise<void>
  /** Returns whether every node knows the owner of every slot. */
  stands(): Promise<void>
  dispose(): Promise<void>
}

/** @throws if redis-server is not installed: call `canStartRedis` first */
export async function startThrowawayCluster(options: string[] = []): Promise<ThrowawayCluster> {
  const nodes: ThrowawayRedis[] = []
  for (let node = 0; node < 2 * MASTERS; node++) nodes.push(await startThrowawayRedis(await optionsOf(options)))
  const clients = nodes.map(({ url }) => new Redis(url, { retryStrategy: () => 50, maxRetriesPerRequest: null }))
  for (const client of clients) client.on('error', () => {})
  const cluster: ThrowawayCluster = {
    url: `redis://${nodes
      .slice(0, MASTERS)
      .map(({ port }) => `127.0.0.1:${port}`)
      .join(',')}`,
    nodes,
    clients,
    async ownerOf(key) {
      for (const client of clients.filter(({ status }) => status === 'ready')) {
        const slot = await client.cluster('KEYSLOT', key)
        const ranges = (await client.cluster('SLOTS')) as unknown as [number, number, [string, number]][]
        const range = ranges.find(([first, last]) => first <= slot && slot <= last)
        if (range) return nodes.findIndex(({ port }) => port === range[2][1])
      }
      return -1
    },
    moveSlotOf: (key) => moveSlotOf(cluster, key),
    async stands() {
      await until('the cluster is ready', async () => {
        const states = await Promise.all(clients.map((client) => client.cluster('INFO')))
        const roles = await Promise.all(clients.map((client) => client.info('replication')))
        const linked = roles.every((role) => role.includes('role:master') || role.includes('master_link_status:up'))
        return linked && states.every((state) => state.includes('cluster_state:ok'))
      })
    },
    async dispose() {
      for (const client of clients) client.disconnect()
      await Promise.all(nodes.map((node) => node.dispose()))
    },
  }
  await join(cluster)
  return cluster
}

async function optionsOf(options: string[]): Promise<string[]> {
  const cluster = ['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())]
  return [...cluster, '--cluster-node-timeout', '1000', '--repl-diskless-sync-delay', '0', ...options]
}

async function join({ nodes, clients, stands }: ThrowawayCluster): Promise<void> {
  const [first] = nodes
  for (const [index, client] of clients.slice(0, MASTERS).entries()) {
    const [from, to] = [index, index + 1].map((edge) => Math.floor((SLOTS * edge) / MASTERS)) as [number, number]
    await client.cluster('ADDSLOTSRANGE', from, to - 1)
    await client.cluster('SET-CONFIG-EPOCH', index + 1)
  }
  const ports = await Promise.all(clients.map((client) => client.config('GET', 'cluster-port')))
  const bus = (ports[0] as string[])[1] ?? ''
  for (const client of clients.slice(1)) await client.call('CLUSTER', 'MEET', '127.0.0.1', String(first?.port), bus)
  const ids = await Promise.all(clients.map((client) => client.cluster('MYID') as Promise<string>))
  for (const [index, client] of clients.slice(MASTERS).entries()) {
    const master = ids[index] ?? ''
    await until('the master is known', async () => String(await client.cluster('NODES')).includes(master))
    await until('it replicates', async () => client.cluster('REPLICATE', master))
  }
  await stands()
}

async function moveSlotOf({ nodes, clients, ownerOf }: ThrowawayCluster, key: string): Promise<void> {
  const from = await ownerOf(key)
  const to = (from + 1) % MASTERS
  const [source, target] = [clients[from], clients[to]] as [Redis, Redis]
  const slot = await source.cluster('KEYSLOT', key)
  const [sourceId, targetId] = await Promise.all([source, target].map((one) => one.cluster('MYID') as Promise<string>))
  await target.cluster('SETSLOT', slot, 'IMPORTING', sourceId ?? '')
  await source.cluster('SETSLOT', slot, 'MIGRATING', targetId ?? '')
  const keys = await source.cluster('GETKEYSINSLOT', slot, 1000)
  if (keys.length > 0) await source.migrate('127.0.0.1', nodes[to]?.port ?? 0, '', 0, 5000, 'KEYS', ...keys)
  for (const client of [target, source, ...clients.slice(0, MASTERS)])
    await client.cluster('SETSLOT', slot, 'NODE', targetId ?? '')
}
