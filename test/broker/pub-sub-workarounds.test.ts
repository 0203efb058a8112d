import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { LogUnavailableError } from '../../src/broker/log.ts'
import { openRedis, type RedisConnection } from '../../src/broker/redis/connection.ts'
import { createSafePubSub, type SafePubSub } from '../../src/broker/redis/pub-sub-workarounds.ts'
import { type ChannelRoutes, createRoutes } from '../../src/broker/redis/routes.ts'
import { parseRedisUrl } from '../../src/lib/redis-url.ts'
import { canStartRedis, startThrowawayRedis, type ThrowawayRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'

const NAMES = Array.from({ length: 20 }, (_, index) => `channel ${index}`)
const ping = { type: 'ping' }

describe.skipIf(!canStartRedis())('RedisPubSub with its workarounds', () => {
  let server: ThrowawayRedis
  let admin: Redis
  let commands: RedisConnection & { redis: Redis }
  let subscriber: RedisConnection & { redis: Redis }
  let routes: ChannelRoutes
  let pubSub: SafePubSub
  let restored: number
  let warnings: string[]
  /** Without the workarounds, each of these errors would end a process of Parley. */
  const uncaught: unknown[] = []
  const onUncaught = (error: unknown) => uncaught.push(error)

  beforeAll(async () => {
    server = await startThrowawayRedis('--user app on >secret ~* +@all allchannels'.split(' '))
    admin = new Redis(server.url, { retryStrategy: () => 20, maxRetriesPerRequest: null })
    admin.on('error', () => {})
    process.on('unhandledRejection', onUncaught)
    process.on('uncaughtException', onUncaught)
  })
  beforeEach(async () => {
    warnings = []
    restored = 0
    uncaught.length = 0
    await allowChannels(true)
    const logger = { info: () => {}, warn: (_: object, message: string) => warnings.push(message) }
    const target = parseRedisUrl(`redis://app:secret@127.0.0.1:${server.port}`)
    commands = openRedis(target, 'commands', logger)
    subscriber = openRedis(target, 'subscriber', logger)
    await Promise.all([commands.ready(), subscriber.ready()])
    routes = createRoutes(subscriber, commands.redis)
    pubSub = createSafePubSub(routes, logger, () => {
      restored += 1
    })
  })
  afterEach(async () => {
    pubSub.close()
    subscriber.close()
    commands.close()
    await server.start()
    await new Promise((resolve) => setImmediate(resolve))
    expect(uncaught).toEqual([])
  })
  afterAll(async () => {
    process.off('unhandledRejection', onUncaught)
    process.off('uncaughtException', onUncaught)
    admin.disconnect()
    await server.dispose()
  })

  async function allowChannels(areAllowed: boolean): Promise<void> {
    await admin.call('ACL', 'SETUSER', 'app', areAllowed ? 'allchannels' : 'resetchannels')
  }

  async function receive(channel: string): Promise<{ received: object[]; stop: () => void }> {
    const received: object[] = []
    return { received, stop: await pubSub.subscribe(channel, (payload) => received.push(payload)) }
  }

  test('1: a refused SUBSCRIBE ends no other subscription, and is repeated until Redis allows it', async () => {
    await allowChannels(false)
    const pending = [receive('a'), receive('a')]
    await until('the refusal is logged', () => warnings.includes('Redis refused a channel subscription'))
    await allowChannels(true)
    const [one, two] = await Promise.all(pending)
    await pubSub.publish('a', ping)
    await until('both listeners receive it', () => one?.received.length === 1 && two?.received.length === 1)
  })

  test('1: a refused channel does not affect the others', async () => {
    await admin.call('ACL', 'SETUSER', 'app', 'resetchannels', '&allowed*')
    const first = await receive('allowed 1')
    void receive('refused').catch(() => {})
    await until('the refusal is logged', () => warnings.includes('Redis refused a channel subscription'))
    await admin.client('KILL', 'TYPE', 'pubsub')
    await until('the subscriptions are restored', () => restored === 1)
    const second = await receive('allowed 2')
    await Promise.all([pubSub.publish('allowed 1', ping), pubSub.publish('allowed 2', ping)])
    await until('both receive it', () => first.received.length === 1 && second.received.length === 1)
  })

  test('2: a subscription may end while Redis is unreachable', async () => {
    const { stop } = await receive('a')
    await server.kill()
    await until('the connection is lost', () => subscriber.redis.status !== 'ready')
    stop()
  })

  test('3: PUNSUBSCRIBE is never sent', async () => {
    const { stop } = await receive('a')
    stop()
    await until('the channel is left', async () => ((await admin.pubsub('NUMSUB', 'a')) as unknown[])[1] === 0)
    expect(await admin.info('commandstats')).not.toContain('cmdstat_punsubscribe')
  })

  test('4: a listener that throws does not end the process, and the others receive the message', async () => {
    await pubSub.subscribe('a', () => {
      throw new Error('a fault of the listener')
    })
    const { received } = await receive('a')
    await pubSub.publish('a', ping)
    await until('the other listener receives it', () => received.length === 1)
    expect(warnings).toEqual(['a listener on a Redis channel failed'])
  })

  test('5: a listener may end all subscriptions of its channel', async () => {
    const all: { received: object[]; stop: () => void }[] = []
    let calls = 0
    await pubSub.subscribe('a', () => {
      calls += 1
      for (const { stop } of all) stop()
    })
    all.push(await receive('a'), await receive('a'), { received: [], stop: await pubSub.subscribe('a', () => {}) })
    all.push({ received: [], stop: await pubSub.subscribe('a', () => {}) })
    await pubSub.publish('a', ping)
    await until('the first listener is called', () => calls === 1)
    expect(all.map(({ received }) => received)).toEqual([[], [], [], []])
  })

  test('5: the last two listeners of a channel may end the subscriptions of each other', async () => {
    const stops: (() => void)[] = []
    let calls = 0
    const endAll = () => {
      calls += 1
      for (const stop of stops) stop()
    }
    stops.push(await pubSub.subscribe('a', endAll), await pubSub.subscribe('a', endAll))
    await pubSub.publish('a', ping)
    await until('the channel is left', async () => ((await admin.pubsub('NUMSUB', 'a')) as unknown[])[1] === 0)
    expect(calls).toBe(1)
  })

  test('6: a subscription may be ended twice', async () => {
    const [{ stop }, { received }] = [await receive('a'), await receive('a')]
    stop()
    stop()
    await pubSub.publish('a', ping)
    await until('the other listener receives it', () => received.length === 1)
  })

  test('7: a message that is not a JSON object is ignored', async () => {
    const { received } = await receive('a')
    for (const text of ['{"type":', '"ping"', 'null', '7', '']) await admin.publish('a', text)
    await pubSub.publish('a', ping)
    await until('the next message arrives', () => received.length > 0)
    expect(received).toEqual([ping])
    expect(warnings).toEqual(Array(5).fill('ignored a Redis channel message that is not JSON'))
  })

  test('8: all subscriptions are restored if the connection breaks again as soon as it is ready', async () => {
    const all = await Promise.all(NAMES.map(receive))
    let breaks = 0
    subscriber.redis.on('ready', () => {
      breaks += 1
      if (breaks <= 3) subscriber.redis.stream.destroy()
    })
    await admin.client('KILL', 'TYPE', 'pubsub')
    await until('the subscriptions are restored', () => restored > 0)
    expect([breaks, restored]).toEqual([4, 1])
    await Promise.all(NAMES.map((name) => pubSub.publish(name, ping)))
    await until('all channels receive messages', () => all.every(({ received }) => received.length === 1))
  })

  test('8: subscriptions that Redis refuses to restore are restored once it allows them', async () => {
    const { received } = await receive('a')
    await allowChannels(false)
    await until('the refusal is logged', () => warnings.includes('Redis refused a channel subscription'))
    expect(restored).toBe(0)
    await allowChannels(true)
    await until('the subscription is restored', () => restored === 1)
    await pubSub.publish('a', ping)
    await until('it receives messages', () => received.length === 1)
  })

  test('8: a channel that was left during the outage is not restored', async () => {
    const [{ stop }] = await Promise.all([receive('left'), receive('kept')])
    await server.kill()
    await until('the connection is lost', () => subscriber.redis.status !== 'ready')
    stop()
    await server.start()
    await until('the other one is restored', () => restored === 1)
    expect(await admin.pubsub('NUMSUB', 'left', 'kept')).toEqual(['left', 0, 'kept', 1])
  })

  test('9: closing rejects pending subscriptions and leaves the connections to their owner', async () => {
    await server.kill()
    const pending = pubSub.subscribe('a', () => {})
    pubSub.close()
    await expect(pending).rejects.toThrow(LogUnavailableError)
    await expect(pubSub.subscribe('b', () => {})).rejects.toThrow(LogUnavailableError)
    await server.start()
    await until('the connections are usable', async () => (await commands.answers(1000)) && subscriber.answers(1000))
  })
})
