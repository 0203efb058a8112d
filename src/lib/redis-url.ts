// Parses REDIS_URL. The URL can refer to one server, to the nodes of a cluster, or to Sentinels, which report the
// current master.

export interface RedisNode {
  host: string
  port: number
}

/** The parts of a REDIS_URL. `username`, `password` and `isTls` apply to all of its servers. */
export interface RedisTarget {
  /** `server`: one node. `cluster`: some nodes of a cluster. `sentinel`: the nodes are Sentinels. */
  type: 'server' | 'cluster' | 'sentinel'
  nodes: RedisNode[]
  username: string | null
  password: string | null
  isTls: boolean
  database: number
  /** The version of IP to which host names are resolved; 0 for both. */
  family: number
  /** The master's name in the configuration of the Sentinels, and the credentials for the Sentinels themselves. */
  sentinel: { masterName: string; username: string | null; password: string | null }
}

const SHAPE =
  /^(?<scheme>(?:redis|valkey)s?(?:\+sentinel)?):\/\/(?:(?<user>[^/?#]*)@)?(?<hosts>[^/?#]*)(?:\/(?<path>[^?#]*))?(?:\?(?<query>[^#]*))?$/i
const EXAMPLES =
  'must be a URL like redis://host:6379, or redis://a:7000,b:7001 for a cluster, or ' +
  'redis+sentinel://a:26379,b:26379/0?name=mymaster; write special characters of a password as escapes, like %2F for /'
const DEFAULT_PORTS = { server: 6379, cluster: 6379, sentinel: 26_379 }
const DEFAULT_MASTER_NAME = 'mymaster'
const SENTINEL_PARAMETERS = ['name', 'sentinel_username', 'sentinel_password']

/**
 * Parses a REDIS_URL:
 * - `redis://user:password@host:6379/0`
 * - `redis://user:password@a:7000,b:7001` for a cluster
 * - `redis+sentinel://user:password@a:26379,b:26379/0?name=mymaster&sentinel_username=…&sentinel_password=…`
 *
 * `rediss` and `rediss+sentinel` use TLS; `valkey` is an alias for `redis`.
 * @throws Error that shows the supported forms and contains no secrets
 */
export function parseRedisUrl(url: string): RedisTarget {
  const { scheme = '', user, hosts = '', path = '', query = '' } = SHAPE.exec(url)?.groups ?? {}
  // An `@` in the path or query means that the password contains an unescaped character.
  if (scheme === '' || path.includes('@') || query.includes('@')) throw new Error(EXAMPLES)
  const isSentinel = /sentinel$/i.test(scheme)
  const list = hosts.split(',').map((host) => host.trim())
  const type = isSentinel ? 'sentinel' : list.length > 1 ? 'cluster' : 'server'
  const parameters = parametersOf(query, type)
  return {
    type,
    nodes: list.map((host) => nodeOf(host, type)),
    ...credentialsOf(user),
    isTls: /^(redis|valkey)s/i.test(scheme),
    database: databaseOf(path, type),
    family: Number(parameters.get('family') ?? 0),
    sentinel: {
      masterName: parameters.get('name') ?? DEFAULT_MASTER_NAME,
      username: parameters.get('sentinel_username') ?? null,
      password: parameters.get('sentinel_password') ?? null,
    },
  }
}

/** Describes the servers of a target for an error: `Redis at host:6379`. The text contains no secrets. */
export function describeRedis({ type, nodes, sentinel }: RedisTarget): string {
  const hosts = nodes.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`).join(',')
  if (type === 'sentinel') return `the Redis master ${sentinel.masterName} of the Sentinels at ${hosts}`
  return type === 'cluster' ? `the cluster at ${hosts}` : `Redis at ${hosts}`
}

function nodeOf(text: string, type: RedisTarget['type']): RedisNode {
  const url = `redis://${text}`
  if (!URL.canParse(url)) throw new Error(EXAMPLES)
  const { hostname, port } = new URL(url)
  if (hostname === '' && type !== 'server') throw new Error(EXAMPLES)
  return {
    host: hostname === '' ? 'localhost' : hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? DEFAULT_PORTS[type] : Number(port),
  }
}

function credentialsOf(user: string | undefined): Pick<RedisTarget, 'username' | 'password'> {
  if (user === undefined) return { username: null, password: null }
  const [, name = '', secret = ''] = /^([^:]*):?(.*)$/s.exec(user) ?? []
  const [username, password] = [decode(name, 'user name'), decode(secret, 'password')]
  return { username: username || null, password: password || null }
}

function decode(text: string, what: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new Error(`the ${what} contains a % that does not begin an escape; write % as %25`)
  }
}

function databaseOf(path: string, type: RedisTarget['type']): number {
  if (!/^\d*$/.test(path)) {
    const form =
      type === 'sentinel' ? ', as in redis+sentinel://a:26379/0?name=mymaster' : ', as in redis://host:6379/0'
    throw new Error(`the path must be the number of a database${form}`)
  }
  if (type === 'cluster' && Number(path) > 0) throw new Error('names a database, but a cluster has only database 0')
  return Number(path)
}

function parametersOf(query: string, type: RedisTarget['type']): Map<string, string> {
  const known = type === 'sentinel' ? ['family', ...SENTINEL_PARAMETERS] : ['family']
  const parameters = new Map<string, string>()
  for (const pair of query.split('&').filter((text) => text !== '')) {
    const [name = '', ...value] = pair.split('=')
    if (!known.includes(name))
      throw new Error(`unknown parameter ${name}; the known parameters are ${known.join(', ')}`)
    parameters.set(name, decode(value.join('='), `parameter ${name}`))
  }
  const family = parameters.get('family')
  if (family !== undefined && !['0', '4', '6'].includes(family))
    throw new Error('the parameter family must be 0, 4 or 6')
  if (parameters.get('name') === '') throw new Error('the parameter name must be the name of the master')
  return parameters
}
