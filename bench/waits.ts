import { Redis } from 'ioredis'
import { createTestDatabase } from '../test/support/postgres.ts'
import { startThrowawayRedis } from '../test/support/throwaway-redis.ts'
import { openWaitingStack } from '../test/support/waits.ts'
import { type Benchmark, percentile } from './support/figures.ts'

const WAITS = 100

/**
 * Measures the time from posting a reply until the waiting run has received it. Replies are sent one at a time, so the result
 * is a latency without queueing.
 */
async function measure(databaseUrl: string, redisUrl: string) {
  const stack = await openWaitingStack(databaseUrl, { url: redisUrl, prefix: 'bench:' })
  const client = new Redis(redisUrl)
  const connections = async () =>
    String(await client.client('LIST'))
      .trim()
      .split('\n').length
  const spaces = await stack.spaces(WAITS)
  const before = await connections()
  const { signal } = new AbortController()
  const waits = await Promise.all(
    spaces.map(async ({ spaceId, agentId }) => {
      const listening = await stack.replies.listen(spaceId)
      const conditions = [{ type: 'human' as const }]
      const ended = listening.reply({ afterSeq: 0, waiterId: agentId, conditions, forMs: 120_000, signal })
      return { listening, repliedAt: ended.then(() => performance.now()) }
    }),
  )
  const added = (await connections()) - before
  const latencies: number[] = []
  for (const [index, { spaceId, humanId }] of spaces.entries()) {
    const posted = stack.send({ spaceId, senderId: humanId, text: 'Yes.' }).then(() => performance.now())
    const [postedAt, repliedAt = Number.NaN] = await Promise.all([posted, waits[index]?.repliedAt])
    latencies.push(Math.max(0, repliedAt - postedAt))
    waits[index]?.listening.end()
  }
  client.disconnect()
  await stack.close()
  return { added, latencies }
}

export const waits: Benchmark = {
  question: `How soon does each of ${WAITS} calls that wait in one process receive its reply over Redis, and how many Redis connections do they need?`,
  async run() {
    const [database, redis] = await Promise.all([createTestDatabase({ isDurable: true }), startThrowawayRedis()])
    const { added, latencies } = await measure(database.url, redis.url)
    await Promise.all([database.drop(), redis.dispose()])
    return [
      { what: 'reply to wait, the slowest', value: Math.max(...latencies), unit: 'ms', bound: { atMost: 50 } },
      { what: 'reply to wait, p50', value: percentile(latencies, 0.5), unit: 'ms' },
      { what: `Redis connections that ${WAITS} waits add`, value: added, unit: '', bound: { atMost: 0 } },
    ]
  },
}
