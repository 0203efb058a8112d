import { describeRedis, type RedisTarget } from '../../lib/redis-url.ts'

const NO_TLS = 'if the server does not expect TLS, use redis:// instead of rediss://'

/** Error messages about Redis, and what an operator can do about each. The first match is used. */
const REMEDIES: readonly (readonly [fault: RegExp, remedy: string])[] = [
  [/sentinel.*(WRONGPASS|NOAUTH)/, 'set sentinel_password (and sentinel_username) in the URL'],
  [/sentinel.*(invalid reply: null|No such master)/, 'set ?name= to the name of the master that the Sentinels monitor'],
  [
    /connect to sentinel/,
    'check the hosts and ports of the Sentinels, and whether they expect TLS (rediss+sentinel://)',
  ],
  [/WRONGPASS|invalid password/, 'check the user and password in the URL, and percent-encode special characters'],
  [/NOAUTH/, 'put the password in the URL: redis://:password@host'],
  [/NOPERM.*channel|access.*channel/i, 'give the user access to the channels: ACL SETUSER <user> &parley:*'],
  [
    /NOPERM|ACL failure|no permissions|can't run this command/i,
    'give the user access to all commands, and to the keys and channels of Parley: ACL SETUSER <user> ~parley:* &parley:* +@all',
  ],
  [/READONLY/, 'this is a read-only replica: use the address of the master, or redis+sentinel://, which follows it'],
  [/MASTERDOWN/, 'this is a replica without its master: use the address of the master'],
  [/DB index is out of range|invalid DB index/i, 'use a smaller database number, or raise `databases` in redis.conf'],
  [/SELECT is not allowed/i, 'a cluster has only database 0: remove the database from the URL'],
  [/cluster support disabled/, 'these servers are not nodes of a cluster: give one address'],
  [/MOVED|CROSSSLOT/, 'this is a node of a cluster: list its nodes, redis://a:7000,b:7001'],
  [/evicts keys/, 'set maxmemory-policy to noeviction: events would be lost'],
  [/OOM/, 'give Redis more memory (maxmemory)'],
  [/MISCONF|NOREPLICAS/, 'the server accepts no writes: check the log of Redis'],
  [/unknown command|unknown subcommand/i, 'Parley needs Redis 7 or newer, or Valkey, with all commands enabled'],
  [/wrong version number|packet length too long/i, NO_TLS],
  [/self.signed|unable to (get|verify)|certificate/i, 'set NODE_EXTRA_CA_CERTS to the file of its CA certificate'],
]

/**
 * Messages of ioredis for a connection that the server closed without a response. A server that expects TLS does
 * this.
 */
const ENDED_EARLY = /Stream isn't writeable|Connection is closed|Protocol error, got "\\u0015"|ECONNRESET/
const ENDED_EARLY_WORDS =
  'it closed the connection without a response; if it expects TLS, use rediss:// instead of redis://'

/**
 * Returns the startup error for a Redis that cannot be used: one line that mentions REDIS_URL, says what to do, and
 * contains no secret.
 */
export function unusable(target: RedisTarget, fault: string | null): Error {
  return new Error(`REDIS_URL: ${describeRedis(target)} cannot be used: ${reasonOf(target, fault)}`)
}

function reasonOf({ isTls, type }: RedisTarget, fault: string | null): string {
  if (fault === null) return 'it does not respond'
  if (!isTls && type !== 'sentinel' && ENDED_EARLY.test(fault)) return ENDED_EARLY_WORDS
  if (isTls && /ETIMEDOUT/.test(fault)) return `${fault}; ${NO_TLS}`
  const remedy = REMEDIES.find(([pattern]) => pattern.test(fault))?.[1]
  const line = fault.replaceAll(/\s+/g, ' ').replace(/\.$/, '')
  return remedy === undefined ? line : `${line}; ${remedy}`
}

/** Whether an error is a configuration error that retries cannot resolve. */
export function isRefusal(fault: string | null): boolean {
  return (
    fault !== null &&
    /WRONGPASS|NOAUTH|NOPERM|invalid password|cluster support disabled|invalid reply: null|No such master|certificate/.test(
      fault,
    )
  )
}
