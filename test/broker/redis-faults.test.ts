import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Broker, createBroker } from '../../src/broker/broker.ts'
import { LogUnavailableError } from '../../src/broker/log.ts'
import { startFollower, startTextReader } from '../support/log-follower.ts'
import { canStartRedis, startThrowawayRedis, type ThrowawayRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'

const TOPIC = 'space:one'
const posted = (index: number) => ({ type: 'MessagePosted', messageId: `msg_${index}` })
const indexes = (count: number, first = 0) => Array.from({ length: count }, (_, index) => first + index)

describe.skipIf(!canStartRedis())('Redis with faults', () => {
  let server: ThrowawayRedis
  let breaker: Redis
  let writer: Broker
  let reader: Broker

  beforeAll(async () => {
    server = await startThrowawayRedis()
    breaker = new Redis(server.url, { retryStrategy: () => 20, maxRetriesPerRequest: null })
    breaker.on('error', () => {})
  })
  beforeEach(async () => {
    await breaker.flushall()
    writer = await createBroker({ redisUrl: server.url })
    reader = await createBroker({ redisUrl: server.url })
  })
  afterEach(async () => {
    server.thaw()
    await server.start()
    await Promise.all([writer.close(), reader.close()])
  })
  afterAll(async () => {
    breaker.disconnect()
    await server.dispose()
  })

  /** Starts an active follower in the other process. */
  async function startStanding(after?: string) {
    const follower = startFollower(reader.log, TOPIC, after)
    if (after === undefined) await until('the follower is active', () => follower.gaps() === 1)
    return follower
  }

  async function restart(): Promise<void> {
    await server.kill()
    await server.start()
  }

  const healthy = () => until('both are healthy', async () => (await writer.healthy()) && (await reader.healthy()))

  test('dropped subscriber connections lose no events', async () => {
    const follower = await startStanding()
    for (const index of indexes(300)) {
      await writer.log.append(TOPIC, posted(index))
      if (index % 50 === 25) await breaker.client('KILL', 'TYPE', 'pubsub')
    }
    expect((await follower.hasEntries(300)).map(({ event }) => event)).toEqual(indexes(300).map(posted))
    expect(follower.gaps()).toBe(1)
    await follower.stop()
  })

  test('a subscriber that was disconnected for long catches up page by page', async () => {
    const follower = await startStanding()
    const stopKilling = keepKilling('pubsub')
    await Promise.all(indexes(5000).map((index) => writer.log.append(TOPIC, posted(index))))
    await stopKilling()
    expect((await follower.hasEntries(5000)).map(({ event }) => event)).toEqual(indexes(5000).map(posted))
    expect(follower.gaps()).toBe(1)
    await follower.stop()
  })

  /** Drops connections of a type repeatedly. */
  function keepKilling(type: 'pubsub' | 'normal'): () => Promise<void> {
    let going = true
    async function kill(): Promise<void> {
      while (going) await breaker.client('KILL', 'TYPE', type, 'SKIPME', 'yes')
    }
    const killing = kill()
    return async () => {
      going = false
      await killing
    }
  }

  test('dropped command connections neither lose nor duplicate events, and keep their order', async () => {
    const follower = await startStanding()
    for (const round of indexes(20)) {
      const appended = indexes(100, round * 100).map((index) => writer.log.append(TOPIC, posted(index)))
      await breaker.client('KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      // On a busy machine, a reconnect can take longer than callers wait.
      for (const { type } of await Promise.all(appended)) expect(['appended', 'deferred']).toContain(type)
    }
    expect((await follower.hasEntries(2000)).map(({ event }) => event)).toEqual(indexes(2000).map(posted))
    expect(follower.gaps()).toBe(1)
    await follower.stop()
  })

  test('deltas of several processes have a single order', async () => {
    const follower = await startStanding()
    await Promise.all(
      [writer, reader].map(async ({ log }, process) => {
        for (const index of indexes(300))
          await log.append(TOPIC, { type: 'RunTextDelta', step: index, delta: `${process}` })
      }),
    )
    const entries = await follower.hasEntries(600)
    const [head] = await reader.log.heads([TOPIC])
    expect(entries.at(-1)!.cursor).toBe(head)
    for (const process of ['0', '1']) {
      const own = entries.map(({ event }) => event).filter((event) => event.delta === process)
      expect(own.map((event) => event.step)).toEqual(indexes(300))
    }
    await follower.stop()
  })

  test('a flush during streaming causes a gap, after which the text is complete again', async () => {
    await writer.log.append(TOPIC, posted(5), { ordinal: 5, isFirst: true })
    const follower = await startStanding()
    const text = startTextReader(reader.log, TOPIC, 'msg_1')
    await write('some text', indexes(9), async (index) => {
      if (index === 4) await breaker.flushall()
    })
    await until('the text is complete', () => text.text() === 'some text')
    expect(text.holes).toEqual([])
    expect(follower.gaps()).toBe(2)
    expect(await reader.log.lastOrdinals([TOPIC])).toEqual([null])
    await text.disconnect()
    await follower.stop()
  })

  /** Writes the characters at the given positions of the text, one after the other. Runs `between` before each write. */
  async function write(text: string, at: number[], between: (index: number) => Promise<void>): Promise<void> {
    for (const index of at) {
      await between(index)
      const delta = { messageId: 'msg_1', partIndex: 0, offset: index, delta: text[index]! }
      await writer.log.appendDelta(TOPIC, delta, () => text.slice(0, index + 1))
    }
  }

  test('a killed and restarted Redis causes a gap, and all subscriptions continue', async () => {
    const follower = await startStanding()
    const text = startTextReader(reader.log, TOPIC, 'msg_1')
    let heard = 0
    let reconnected = 0
    await reader.signals.subscribe('jobs', () => {
      heard += 1
    })
    reader.signals.onReconnect(() => {
      reconnected += 1
    })
    await write('restarted', indexes(9), async (index) => {
      if (index === 5) await restart()
    })
    await until('the text is complete', () => text.text() === 'restarted')
    expect(text.holes).toEqual([])
    await until('a gap', () => follower.gaps() >= 2)
    await until('signals are received again', () => reconnected > 0)
    await writer.signals.publish('jobs', {})
    await until('the signal is received', () => heard === 1)
    expect([follower.fault.error, text.fault.error]).toEqual([undefined, undefined])
    await text.disconnect()
    await follower.stop()
  })

  test('a Redis that returns with an older state causes a gap, and no wrong continuation', async () => {
    const follower = await startStanding()
    await Promise.all(indexes(10).map((index) => writer.log.append(TOPIC, posted(index))))
    await breaker.save()
    const lost = await Promise.all(indexes(10, 10).map((index) => writer.log.append(TOPIC, posted(index))))
    await follower.hasEntries(20)
    await restart()
    // Wait for the reconnect. Otherwise, the write could be deferred, and have no cursor yet.
    await healthy()
    const after = await Promise.all(indexes(30, 100).map((index) => writer.log.append(TOPIC, posted(index))))
    const cursorOf = (result: (typeof lost)[number]) => (result.type === 'appended' ? result.cursor : '')
    expect((await reader.log.read(TOPIC, cursorOf(lost[3]!), 100)).type).toBe('gap')
    expect(await reader.log.read(TOPIC, cursorOf(after[28]!), 100)).toMatchObject({
      publications: [{ event: posted(129) }],
    })
    await until('a gap', () => follower.gaps() >= 2)
    await writer.log.append(TOPIC, posted(130))
    await until('the follower continues', () => follower.entries().at(-1)?.event.messageId === 'msg_130')
    await follower.stop()
    await breaker.flushall()
    await breaker.save()
  })

  test('while Redis is unreachable, no publisher of a committed event waits for it', async () => {
    const follower = await startStanding()
    await server.kill()
    const since = Date.now()
    const took = () => Date.now() - since
    const [first] = await Promise.all([
      writer.log.append(TOPIC, posted(1), { ordinal: 1 }),
      writer.log.append('space:two', posted(1)),
      writer.signals.publish('jobs', {}),
    ])
    expect(first).toEqual({ type: 'deferred' })
    expect(took()).toBeLessThan(1000)
    // From now on, the log knows that Redis is unreachable.
    const later = Date.now()
    for (const index of indexes(20, 2)) expect(await writer.log.append(TOPIC, posted(index))).toEqual(first)
    await writer.log.seal('run:1', [TOPIC, 'run:1'])
    await writer.log.finishDraft(TOPIC, 'msg_1')
    await writer.log.expire('run:1', 3600)
    await writer.signals.publish('jobs', {})
    expect(Date.now() - later).toBeLessThan(500)
    expect(await writer.healthy()).toBe(false)
    await server.start()
    await until('a gap', () => follower.gaps() === 2)
    // These calls wait until the earlier ones have been sent, and are then refused.
    await until('the seal works', async () => {
      const { type } = await writer.log.append(TOPIC, posted(22), { unlessSealed: 'run:1' })
      return type === 'sealed'
    })
    expect(await writer.log.append(TOPIC, posted(22))).toMatchObject({ type: 'appended' })
    await until('the follower continues', () => follower.entries().at(-1)?.event.messageId === 'msg_22')
    await follower.stop()
  })

  test('events published while Redis hangs arrive in order, once, before later ones', async () => {
    const follower = await startStanding()
    server.freeze()
    for (const index of indexes(250)) void writer.log.append(TOPIC, posted(index))
    expect(await writer.log.append(TOPIC, posted(250))).toEqual({ type: 'deferred' })
    await until('the connection was lost', async () => !(await writer.healthy()))
    server.thaw()
    await healthy()
    for (const index of indexes(50, 251)) void writer.log.append(TOPIC, posted(index))
    expect((await follower.hasEntries(301)).map(({ event }) => event)).toEqual(indexes(301).map(posted))
    expect(follower.gaps()).toBe(1)
    await follower.stop()
  })

  test('if the buffer overflows, its oldest events are dropped, which causes a gap', async () => {
    const follower = await startStanding()
    const text = posted(-1)
    await writer.log.append(TOPIC, text)
    await follower.hasEntries(1)
    server.freeze()
    await writer.log.append(TOPIC, posted(0))
    for (const index of indexes(10_300, 1)) void writer.log.append(TOPIC, posted(index))
    server.thaw()
    await until('a gap', () => follower.gaps() === 2)
    await until('the last event', () => follower.entries().at(-1)?.event.messageId === 'msg_10300')
    await follower.stop()
  })

  test('if too many topics are buffered, the oldest are dropped', async () => {
    const [kept, more] = [10_000, 300]
    server.freeze()
    await writer.log.append(TOPIC, posted(0))
    for (const index of indexes(kept + more, 1)) void writer.log.append(`space:${index}`, posted(index)).catch(() => {})
    server.thaw()
    const toldTopics = async () => new Set((await breaker.keys('*')).flatMap((key) => /space:\d+/.exec(key) ?? []))
    const told = await until('the other topics are published', async () => {
      const topics = await toldTopics()
      return topics.size >= kept - 1 && topics
    })
    expect(told.has(`space:${kept + more}`)).toBe(true)
    await writer.log.append(TOPIC, posted(1))
    expect((await toldTopics()).size).toBeLessThanOrEqual(kept)
  })

  test('while Redis is unreachable, deltas and reads fail after about 5 s, and followers wait', async () => {
    const follower = await startStanding()
    await server.kill()
    const since = Date.now()
    const delta = { messageId: 'msg_1', partIndex: 0, offset: 0, delta: 'text' }
    await Promise.all(
      [
        writer.log.appendDelta(TOPIC, delta, () => 'text'),
        writer.log.heads([TOPIC]),
        writer.log.drafts(TOPIC, ['msg_1']),
      ].map((outcome) => expect(outcome).rejects.toThrow(LogUnavailableError)),
    )
    expect(Date.now() - since).toBeGreaterThan(4000)
    expect(Date.now() - since).toBeLessThan(7000)
    await server.start()
    await writer.log.append(TOPIC, posted(9))
    await until('a gap', () => follower.gaps() === 2)
    await writer.log.append(TOPIC, posted(10))
    await until('the follower continues', () => follower.entries().at(-1)?.event.messageId === 'msg_10')
    await follower.stop()
  })

  test('followers and listeners that start while Redis is unreachable work once it returns', async () => {
    await server.kill()
    const waiting = startFollower(reader.log, TOPIC)
    const impatient = startFollower(reader.log, TOPIC)
    let heard = 0
    const subscribed = reader.signals.subscribe('jobs', () => {
      heard += 1
    })
    await until('both have started', () => reader.log.stats().followers === 2)
    await impatient.stop()
    await server.start()
    await until('the follower is active', () => waiting.gaps() === 1)
    await writer.log.append(TOPIC, posted(1))
    await waiting.hasEntries(1)
    await subscribed
    await writer.signals.publish('jobs', {})
    await until('the signal is received', () => heard === 1)
    await waiting.stop()
    expect(reader.log.stats()).toEqual({ topics: 0, followers: 0 })
  })

  test('a Redis that hangs is unhealthy, and calls to it time out', async () => {
    const follower = await startStanding()
    server.freeze()
    const since = Date.now()
    const read = writer.log.heads([TOPIC])
    expect(await writer.healthy()).toBe(false)
    expect(Date.now() - since).toBeLessThan(3000)
    await expect(read).rejects.toThrow(LogUnavailableError)
    expect(Date.now() - since).toBeLessThan(7000)
    server.thaw()
    await healthy()
    await writer.log.append(TOPIC, posted(2))
    await until('the follower continues', () => follower.entries().at(-1)?.event.messageId === 'msg_2')
    await follower.stop()
  })

  test('scripts that Redis lost are loaded again', async () => {
    await writer.log.append(TOPIC, posted(0))
    await breaker.script('FLUSH')
    const results = await Promise.all(indexes(10).map((index) => writer.log.append(`space:${index}`, posted(index))))
    expect(results.map(({ type }) => type)).toEqual(Array(10).fill('appended'))
    expect((await writer.log.heads([TOPIC])).length).toBe(1)
  })

  test('closes while Redis is unreachable, without waiting for it', async () => {
    const realtime = await createBroker({ redisUrl: server.url })
    const follower = startFollower(realtime.log, TOPIC)
    await until('the follower is active', () => follower.gaps() === 1)
    await server.kill()
    const lost = realtime.signals.subscribe('jobs', () => {})
    const append = realtime.log.append(TOPIC, posted(1))
    const since = Date.now()
    await Promise.all([
      realtime.close(),
      expect(lost).rejects.toThrow(),
      expect(append).rejects.toThrow(LogUnavailableError),
    ])
    await follower.stop()
    expect(Date.now() - since).toBeLessThan(1000)
    expect(follower.fault.error).toBeUndefined()
  })
})

describe.skipIf(!canStartRedis())('opening Redis', () => {
  test('fails within 5 s if it cannot be reached, without revealing its secret', async () => {
    const server = await startThrowawayRedis()
    await server.dispose()
    const since = Date.now()
    const opening = createBroker({ redisUrl: `redis://someone:s3cret@127.0.0.1:${server.port}/1` })
    const error = await opening.then(String, (failure: Error) => failure.message)
    expect(error).toBe(
      `REDIS_URL: Redis at 127.0.0.1:${server.port} cannot be used: connect ECONNREFUSED 127.0.0.1:${server.port}`,
    )
    expect(Date.now() - since).toBeLessThan(5000)
  })

  test('fails immediately if Redis refuses the password', async () => {
    const server = await startThrowawayRedis(['--requirepass', 'right'])
    const wrong = `redis://:s3cret@127.0.0.1:${server.port}`
    const error = await createBroker({ redisUrl: wrong }).then(String, (failure: Error) => failure.message)
    expect(error).toMatch(/^REDIS_URL: Redis at 127.0.0.1:\d+ cannot be used: WRONGPASS/)
    expect(error).not.toContain('s3cret')
    const missing = await createBroker({ redisUrl: server.url }).then(String, (failure: Error) => failure.message)
    expect(missing).toContain('NOAUTH')
    const { close } = await createBroker({ redisUrl: `redis://:right@127.0.0.1:${server.port}` })
    await close()
    await server.dispose()
  })

  test('waits while Redis is still starting', async () => {
    const server = await startThrowawayRedis()
    await server.kill()
    const opening = createBroker({ redisUrl: server.url })
    await server.start()
    const { log, close } = await opening
    expect(await log.healthy()).toBe(true)
    await close()
    await server.dispose()
  })
})
