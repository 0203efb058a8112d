import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Broker, createBroker } from '../../src/broker/broker.ts'
import { type LogFollower, startFollower } from '../support/log-follower.ts'
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts'
import { canStartRedis, startThrowawayRedis, type ThrowawayRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'

const TOPIC = 'space:one'
const AGENTS = Array.from({ length: 20 }, (_, index) => `agent:${index}`)
const posted = (index: number) => ({ type: 'MessagePosted', messageId: `msg_${index}` })
const OPTIONS = '--user app on >secret ~* +@all allchannels --client-output-buffer-limit pubsub 1mb 0 0'.split(' ')

describe.skipIf(!canStartRedis())('a process whose subscriber connection has faults', () => {
  let server: ThrowawayRedis
  let proxy: TcpProxy
  let admin: Redis
  let writer: Broker
  let reader: Broker
  let follower: LogFollower
  let appended: number
  let received: string[]
  let reconnects: number

  beforeAll(async () => {
    server = await startThrowawayRedis(OPTIONS)
    proxy = await startTcpProxy(server.port)
    admin = new Redis(server.url, { retryStrategy: () => 20, maxRetriesPerRequest: null })
    admin.on('error', () => {})
  })
  beforeEach(async () => {
    await admin.flushall()
    writer = await createBroker({ redisUrl: server.url })
    reader = await createBroker({ redisUrl: `redis://app:secret@127.0.0.1:${proxy.port}` })
    appended = 0
    received = []
    reconnects = 0
    follower = startFollower(reader.log, TOPIC)
    await until('the follower is live', () => follower.gaps() === 1)
    for (const agent of AGENTS) await reader.signals.subscribe(agent, () => received.push(agent))
    reader.signals.onReconnect(() => {
      reconnects += 1
    })
  })
  afterEach(async () => {
    await admin.call('ACL', 'SETUSER', 'app', 'allchannels')
    await follower.stop()
    await Promise.all([writer.close(), reader.close()])
  })
  afterAll(async () => {
    admin.disconnect()
    await proxy.dispose()
    await server.dispose()
  })

  async function append(count: number): Promise<void> {
    for (let index = 0; index < count; index += 1) {
      await writer.log.append(TOPIC, posted(appended))
      appended += 1
    }
  }

  async function expectNothingLost(): Promise<void> {
    await append(1)
    const events = (await follower.hasEntries(appended)).map(({ event }) => event)
    expect(events).toEqual(Array.from({ length: appended }, (_, index) => posted(index)))
    expect([follower.gaps(), follower.fault.error]).toEqual([1, undefined])
  }

  /**
   * Waits until signals arrive again. Listeners must also be called to check, because signals sent without a connection are
   * lost.
   */
  async function expectSignalsAgain(): Promise<void> {
    await until('the reconnect is reported', () => reconnects > 0)
    // A refusal may affect only some of the channels. The process subscribes to these again after a pause.
    await until('each channel has its subscriber again', async () => {
      const counts = await admin.pubsub('NUMSUB', ...AGENTS.map((agent) => `parley:signal:${agent}`))
      return counts.filter((count) => Number(count) === 1).length === AGENTS.length
    })
    received = []
    for (const agent of AGENTS) await writer.signals.publish(agent, { type: 'run-changed' })
    await until('each channel receives its signal', () => received.length === AGENTS.length)
    expect(received.toSorted()).toEqual(AGENTS.toSorted())
  }

  test('CLIENT KILL of the subscriber connection loses no event, and signals arrive again', async () => {
    for (let round = 0; round < 5; round += 1) {
      await append(10)
      await admin.client('KILL', 'TYPE', 'pubsub')
    }
    await expectNothingLost()
    await expectSignalsAgain()
  })

  test('connections that are cut again and again lose no event, and signals arrive again', async () => {
    for (let round = 0; round < 10; round += 1) {
      await append(10)
      proxy.cut()
    }
    await expectNothingLost()
    await expectSignalsAgain()
  })

  test('a subscriber so slow that Redis drops it loses no event, and signals arrive again', async () => {
    const clients = async () =>
      String(await admin.call('CLIENT', 'LIST', 'TYPE', 'pubsub')).split('user=app').length - 1
    expect(await clients()).toBe(1)
    proxy.stall()
    await append(50)
    const large = JSON.stringify({ type: 'run-changed', run: 'x'.repeat(500_000) })
    await until('Redis drops the subscriber', async () => {
      await admin.publish(`parley:signal:${AGENTS[0]}`, large)
      return (await clients()) === 0
    })
    await append(50)
    proxy.resume()
    await expectNothingLost()
    await expectSignalsAgain()
  })

  test('a subscriber whose user may not use channels for a while loses no event, and signals arrive again', async () => {
    await admin.call('ACL', 'LOG', 'RESET')
    await admin.call('ACL', 'SETUSER', 'app', 'resetchannels')
    await append(50)
    const late = reader.signals.subscribe('jobs', () => received.push('jobs'))
    await until('Redis has refused a subscription', async () =>
      JSON.stringify(await admin.call('ACL', 'LOG')).includes('parley:'),
    )
    await admin.call('ACL', 'SETUSER', 'app', 'allchannels')
    await expectNothingLost()
    await expectSignalsAgain()
    await late
    await writer.signals.publish('jobs', {})
    await until('the late listener receives its signal', () => received.includes('jobs'))
  })
})
