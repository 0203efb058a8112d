import { afterAll, describe, expect, test } from 'vitest'
import { createBroker } from '../../src/broker/broker.ts'
import { describeSignals } from '../contracts/signals-contract.ts'
import { openTestRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

describeSignals('in process', async () => (await createBroker()).signals)

const redis = await openTestRedis()
let opened = 0

describe.skipIf(redis === null)('with Redis', () => {
  afterAll(() => redis!.release())

  const open = (prefix: string) => createBroker({ redisUrl: redis!.url, prefix: redis!.prefix + prefix })

  describeSignals('RedisPubSub', async () => {
    opened += 1
    const { signals, close } = await open(`${opened}:`)
    return { ...signals, close }
  })

  test('reach every process that shares the Redis and the prefix', async () => {
    const [one, two, stranger] = await Promise.all([open('shared:'), open('shared:'), open('other:')])
    const heard: string[] = []
    await one.signals.subscribe('run:1', () => heard.push('one'))
    await two.signals.subscribe('run:1', () => heard.push('two'))
    await stranger.signals.subscribe('run:1', () => heard.push('stranger'))
    await one.signals.publish('run:1', { type: 'stop', runId: 'run_1' })
    await until('both received it', () => heard.length === 2)
    expect(heard.toSorted()).toEqual(['one', 'two'])
    await Promise.all([one.close(), two.close(), stranger.close()])
  })

  test('leave no subscription behind', async () => {
    const { signals, close } = await open('count:')
    const channel = `${redis!.prefix}count:signal:jobs`
    const count = async () => ((await redis!.client.pubsub('NUMSUB', channel)) as [string, number])[1]
    const stops = await Promise.all(Array.from({ length: 5 }, () => signals.subscribe('jobs', () => {})))
    expect(await count()).toBe(1)
    for (const stop of stops) stop()
    await until('the channel is left', async () => (await count()) === 0)
    await close()
  })
})
