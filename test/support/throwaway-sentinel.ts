import { Redis } from 'ioredis'
import { startThrowawayRedis, type ThrowawayRedis } from './throwaway-redis.ts'
import { until } from './until.ts'

/** The name under which the Sentinels monitor the master. */
export const MASTER_NAME = 'rooms'
const SENTINELS = 3
const QUORUM = 2

/** A master, its replica, and three Sentinels that watch them, in five processes. */
export interface ThrowawaySentinel {
  /** The URL: `redis+sentinel://a:26379,b:26379,c:26379/0?name=…` */
  url: string
  servers: ThrowawayRedis[]
  sentinels: ThrowawayRedis[]
  /** Returns the server that all Sentinels report as the master. */
  master(): Promise<ThrowawayRedis>
  /** Requests a failover from a Sentinel while the master is alive. */
  failOver(): Promise<void>
  dispose(): Promise<void>
}

export interface ThrowawaySentinelOptions {
  /** Further options of the servers, and of the Sentinels. */
  serverOptions?: string[]
  sentinelOptions?: string[]
  /** The text between `redis+sentinel://` and the hosts, and the text after the parameters. */
  user?: string
  parameters?: string
  /** The password for the Sentinels, and the one for the servers. */
  sentinelPassword?: string
  serverPassword?: string
}

/** @throws if redis-server is not installed: call `canStartRedis` first */
export async function startThrowawaySentinel(options: ThrowawaySentinelOptions = {}): Promise<ThrowawaySentinel> {
  const { serverOptions = [], sentinelOptions = [], user = '', parameters = '' } = options
  const { sentinelPassword, serverPassword } = options
  const quick = ['--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1', ...serverOptions]
  const first = await startThrowawayRedis(quick)
  const second = await startThrowawayRedis([...quick, '--replicaof', '127.0.0.1', String(first.port)])
  const servers = [first, second]
  const sentinels: ThrowawayRedis[] = []
  for (let count = 0; count < SENTINELS; count++) sentinels.push(await startThrowawayRedis(sentinelOptions, 'sentinel'))
  const asking = sentinels.map(({ port }) => {
    const client = new Redis({
      port,
      retryStrategy: () => 50,
      ...(sentinelPassword ? { password: sentinelPassword } : {}),
    })
    return client.on('error', () => {})
  })
  for (const client of asking) {
    await client.call('SENTINEL', 'MONITOR', MASTER_NAME, '127.0.0.1', String(first.port), String(QUORUM))
    const settings = ['down-after-milliseconds', '500', 'failover-timeout', '3000']
    if (serverPassword !== undefined) settings.push('auth-pass', serverPassword)
    await client.call('SENTINEL', 'SET', MASTER_NAME, ...settings)
  }
  const stateOf = async (client: Redis) => {
    const fields = (await client.call('SENTINEL', 'MASTER', MASTER_NAME)) as string[]
    return (name: string) => fields[fields.indexOf(name) + 1] ?? ''
  }
  await until('the Sentinels know one another and the replica', async () => {
    const states = await Promise.all(asking.map(stateOf))
    return states.every(
      (get) => get('num-other-sentinels') === '2' && get('num-slaves') === '1' && get('flags') === 'master',
    )
  })
  const hosts = sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')
  return {
    url: `redis+sentinel://${user}${hosts}/0?name=${MASTER_NAME}${parameters}`,
    servers,
    sentinels,
    async master() {
      const ports = new Set((await Promise.all(asking.map(stateOf))).map((get) => Number(get('port'))))
      const named = servers.find(({ port }) => ports.size === 1 && ports.has(port))
      if (named === undefined) throw new Error('the Sentinels do not agree')
      return named
    },
    async failOver() {
      await asking[0]?.call('SENTINEL', 'FAILOVER', MASTER_NAME)
    },
    async dispose() {
      for (const client of asking) client.disconnect()
      await Promise.all([...sentinels, ...servers].map((server) => server.dispose()))
    },
  }
}
