import { Cluster, type Redis } from 'ioredis'
import { sleep } from '../../lib/async.ts'
import { messageOf } from '../../lib/errors.ts'
import type { RedisTarget } from '../../lib/redis-url.ts'
import { RedisRefusesError, START_TIMEOUT_MS } from './connection.ts'
import type { Probe } from './probe.ts'
import { unusable } from './refusals.ts'

const RETRY_MS = 100

/**
 * Checks once that Redis meets Parley's requirements: the database, the eviction policy, and every command. Retries
 * transient errors for 4 s.
 * @throws an error with one line that mentions REDIS_URL and says what to do
 */
export async function checkRedis(target: RedisTarget, redis: Redis | Cluster, probe: Probe): Promise<void> {
  const deadline = Date.now() + START_TIMEOUT_MS
  for (;;) {
    try {
      if (!(redis instanceof Cluster) && target.database > 0) await redis.select(target.database)
      await probe.tryAll(START_TIMEOUT_MS)
      break
    } catch (error) {
      if (Date.now() > deadline || !isPassing(error, target)) throw unusable(target, messageOf(error))
      await sleep(RETRY_MS)
    }
  }
  for (const node of redis instanceof Cluster ? redis.nodes('master') : [redis]) {
    const policy = await evictingPolicyOf(node)
    if (policy !== null) throw unusable(target, `it evicts keys (maxmemory-policy ${policy})`)
  }
}

function isPassing(error: unknown, { type }: RedisTarget): boolean {
  if (!(error instanceof Error) || error instanceof TypeError || error instanceof RedisRefusesError) return false
  if (error.name !== 'ReplyError') return true
  const passing =
    type === 'server' ? /LOADING|MASTERDOWN|BUSY/ : /LOADING|MASTERDOWN|BUSY|READONLY|CLUSTERDOWN|MOVED|ASK|TRYAGAIN/
  return passing.test(error.message)
}

/**
 * Returns the policy with which Redis evicts keys when its memory is full; null if it evicts none, or does not
 * report a policy.
 */
async function evictingPolicyOf(redis: Redis): Promise<string | null> {
  const info = await redis.info('memory').catch(() => '')
  const textOf = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? ''
  const policy = textOf('maxmemory_policy')
  return Number(textOf('maxmemory')) > 0 && policy !== '' && policy !== 'noeviction' ? policy : null
}
