import { once } from 'node:events'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Broker, createBroker } from '../../src/broker/broker.ts'
import { KEPT_EMPTY_MS, KEPT_FINISHED_DRAFT_MS, KEPT_MS } from '../../src/broker/log.ts'
import { describeEventLog } from '../contracts/event-log-contract.ts'
import { type LogFollower, startFollower } from '../support/log-follower.ts'
import { openTestRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const redis = await openTestRedis()
let opened = 0

const epochOf = (cursor: string) => Buffer.from(cursor, 'base64url').toString().split('.')[0]

/** Returns an unused prefix. */
function newPrefix(): string {
  opened += 1
  return `${redis!.prefix}${opened}:`
}

const posted = (index: number) => ({ type: 'MessagePosted', messageId: `msg_${index}` })
const indexes = (count: number, first = 0) => Array.from({ length: count }, (_, index) => first + index)

/** A long timeout, because this test does not measure response times on a busy machine. */
const PATIENT = { patienceMs: 10_000 }

describe.skipIf(redis === null)('with Redis', () => {
  afterAll(() => redis!.release())

  describeEventLog('Redis', async () => {
    const { log, close } = await createBroker({ redisUrl: redis!.url, prefix: newPrefix(), ...PATIENT })
    return { ...log, close }
  })

  describe('shared by processes', () => {
    const TOPIC = 'space:one'
    let prefix: string
    let one: Broker
    let two: Broker
    let three: Broker

    beforeEach(async () => {
      prefix = newPrefix()
      one = await createBroker({ redisUrl: redis!.url, prefix, ...PATIENT })
      two = await createBroker({ redisUrl: redis!.url, prefix, ...PATIENT })
      three = await createBroker({ redisUrl: redis!.url, prefix, ...PATIENT })
    })
    afterEach(() => Promise.all([one, two, three].map(({ close }) => close())))

    const ttl = (key: string) => redis!.client.pttl(prefix + key)
    const delta = { messageId: 'msg_1', partIndex: 0, offset: 0, delta: 'text' }

    test('entries of one process reach followers in the other process, and both processes share the conditions', async () => {
      const follower = startFollower(two.log, TOPIC)
      await until('the follower is active', () => follower.gaps() === 1)
      await one.log.append(TOPIC, { type: 'MessagePosted', messageId: 'msg_1' }, { ordinal: 1, once: 'a' })
      await one.log.appendDelta(TOPIC, delta, () => 'text')
      await follower.hasEntries(2)
      expect(await two.log.append(TOPIC, { type: 'SpaceUpdated' }, { once: 'a' })).toEqual({ type: 'duplicate' })
      expect(await two.log.append(TOPIC, { type: 'SpaceUpdated' }, { ordinal: 1 })).toEqual({ type: 'duplicate' })
      expect(await two.log.lastOrdinals([TOPIC])).toEqual([1])
      expect((await two.log.drafts(TOPIC, ['msg_1'])).get('msg_1')?.get(0)).toBe('text')
      await one.log.seal('run_1', [TOPIC, 'space:two'])
      expect(await two.log.append(TOPIC, { type: 'SpaceUpdated' }, { unlessSealed: 'run_1' })).toEqual({
        type: 'sealed',
      })
      const more = { ...delta, offset: 4, delta: '!' }
      await two.log.appendDelta(TOPIC, more, () => 'text!')
      expect((await one.log.drafts(TOPIC, ['msg_1'])).get('msg_1')?.get(0)).toBe('text!')
      await follower.stop()
    })

    test('followers of one topic share one subscription, and the last one ends it', async () => {
      const channel = `${prefix}log:{${TOPIC}}`
      const subscribers = async () => ((await redis!.client.pubsub('NUMSUB', channel)) as [string, number])[1]
      const followers = Array.from({ length: 10 }, () => startFollower(one.log, TOPIC))
      await until('all followers are active', () => followers.every((follower) => follower.gaps() === 1))
      expect(await subscribers()).toBe(1)
      for (const follower of followers) await follower.stop()
      await until('the subscription is gone', async () => (await subscribers()) === 0)
    })

    test('many followers that resume concurrently read each position at most once, and the head once', async () => {
      const results = await Promise.all(indexes(50).map((index) => one.log.append(TOPIC, posted(index))))
      const cursors = results.map((result) => (result.type === 'appended' ? result.cursor : ''))
      const reads = await watchReads()
      const followers = indexes(80).map((n) => ({ n, follower: startFollower(two.log, TOPIC, cursors[n % 20]) }))
      for (const { n, follower } of followers) {
        const entries = await follower.hasEntries(49 - (n % 20))
        expect(entries.map(({ event }) => event)).toEqual(indexes(49 - (n % 20), 1 + (n % 20)).map(posted))
      }
      expect(await reads.stop()).toBeLessThanOrEqual(21)
      await Promise.all(followers.map(({ follower }) => follower.stop()))
    })

    /** Counts how often all followers together read the topic from Redis. */
    async function watchReads() {
      // On a busy server, MONITOR lines can arrive together with the reply to MONITOR. ioredis then mistakes them for replies.
      const { host = '127.0.0.1', port = 6379 } = redis!.client.options
      const monitor = connect(port, host)
      let count = 0
      let isOver = false
      const over = `${prefix}over`
      createInterface(monitor).on('line', (line) => {
        if (/"eval(sha)?"/i.test(line) && line.includes(`"${prefix}log:{${TOPIC}}"`)) count += 1
        if (line.includes(`"${over}"`)) isOver = true
      })
      monitor.write('MONITOR\r\n')
      await once(monitor, 'data')
      return {
        async stop() {
          await redis!.client.get(over)
          await until('all followers have all events', () => isOver)
          monitor.destroy()
          return count
        },
      }
    }

    test('messages of other applications on a channel that are not JSON or not a signal do no harm', async () => {
      const follower = startFollower(two.log, TOPIC)
      await until('the follower is active', () => follower.gaps() === 1)
      for (const text of ['{', 'null', '"a text"', '']) await redis!.client.publish(`${prefix}log:{${TOPIC}}`, text)
      await one.log.append(TOPIC, posted(1))
      await follower.hasEntries(1)
      expect(follower.gaps()).toBe(1)
    })

    test('a wake-up signal is trusted only if it continues the position', async () => {
      const follower = startFollower(two.log, TOPIC)
      await until('the follower is active', () => follower.gaps() === 1)
      const [epoch] = Buffer.from(follower.cursor()!, 'base64url').toString().split('.')
      const ring = { at: 1, bytes: [10], events: [{ type: 'Forged' }] }
      const forged = [
        { ...ring, epoch, first: 5, last: 5 },
        { ...ring, epoch: 'f'.repeat(16), first: 1, last: 1 },
        { ...ring, epoch, first: 0, last: 0 },
        { ...ring, epoch, first: 1, last: 1, before: 'another', batch: 'forged' },
        'nonsense',
        null,
      ]
      for (const message of forged) await redis!.client.publish(`${prefix}log:{${TOPIC}}`, JSON.stringify(message))
      await one.log.append(TOPIC, { type: 'MemberJoined' })
      await one.log.append(TOPIC, { type: 'MemberLeft' })
      expect((await follower.hasEntries(2)).map(({ event }) => event.type)).toEqual(['MemberJoined', 'MemberLeft'])
      expect(follower.gaps()).toBe(1)
      await follower.stop()
    })

    test('everything expires', async () => {
      await one.log.heads(['space:empty'])
      expect(await ttl('log:{space:empty}:meta')).toBeLessThanOrEqual(KEPT_EMPTY_MS)
      await one.log.append(TOPIC, { type: 'SpaceUpdated' }, { once: 'a' })
      await one.log.appendDelta(TOPIC, delta, () => 'text')
      await one.log.appendDelta(TOPIC, { ...delta, partIndex: 1 }, () => 'text')
      await one.log.seal('run_1', [TOPIC])
      const keys = (await redis!.client.keys(`${prefix}*`)).map((key) => key.slice(prefix.length))
      expect(keys.toSorted()).toEqual([
        'draft:{space:one}:msg_1',
        'draft:{space:one}:msg_1:0',
        'draft:{space:one}:msg_1:1',
        'log:{space:empty}:meta',
        'log:{space:one}',
        'log:{space:one}:meta',
        'log:{space:one}:once',
        'sealed:{space:one}:run_1',
      ])
      for (const key of keys) {
        expect(await ttl(key), key).toBeGreaterThan(key.includes('empty') ? 0 : KEPT_MS - 10_000)
        expect(await ttl(key), key).toBeLessThan(KEPT_MS + 3_600_000)
      }
    })

    test('a finished draft and an ended topic expire sooner, and appending does not extend their lifetime', async () => {
      await one.log.append(TOPIC, { type: 'SpaceUpdated' }, { once: 'a' })
      await one.log.appendDelta(TOPIC, delta, () => 'text')
      await one.log.finishDraft(TOPIC, 'msg_1')
      await one.log.expire(TOPIC, 3600)
      await one.log.append(TOPIC, { type: 'SpaceUpdated' }, { once: 'b' })
      for (const key of ['draft:{space:one}:msg_1', 'draft:{space:one}:msg_1:0']) {
        expect(await ttl(key), key).toBeGreaterThan(0)
        expect(await ttl(key), key).toBeLessThanOrEqual(KEPT_FINISHED_DRAFT_MS)
      }
      for (const key of ['log:{space:one}', 'log:{space:one}:meta', 'log:{space:one}:once']) {
        expect(await ttl(key), key).toBeGreaterThan(0)
        expect(await ttl(key), key).toBeLessThanOrEqual(3_600_000)
      }
    })

    test('a part whose text was evicted is written again in full', async () => {
      await one.log.appendDelta(TOPIC, delta, () => 'text')
      await redis!.client.del(`${prefix}draft:{${TOPIC}}:msg_1:0`)
      await one.log.appendDelta(TOPIC, { ...delta, offset: 4, delta: '!' }, () => 'text!')
      expect((await two.log.drafts(TOPIC, ['msg_1'])).get('msg_1')?.get(0)).toBe('text!')
    })

    /** Resets the topic to its n-th entry, as on a server that was promoted, or restored behind a proxy. */
    async function rewind(n: number): Promise<void> {
      const key = `${prefix}log:{${TOPIC}}`
      const later = await redis!.client.xrange(key, `${n + 1}-0`, '+')
      if (later.length > 0) await redis!.client.xdel(key, ...later.map(([id]) => id))
      await redis!.client.call('XSETID', key, `${n}-0`)
      const [[, fields]] = (await redis!.client.xrange(key, `${n}-0`, `${n}-0`)) as [[string, string[]]]
      await redis!.client.hset(`${key}:meta`, 'n', n, 'b', fields[5]!)
    }

    const textsOf = (follower: LogFollower) => follower.entries().map(({ event }) => event.messageId)

    test.each([
      ['by who wrote it', () => one],
      ['by who knows nothing of it', () => three],
    ])(
      'a log that returned to an older state under an open connection causes a gap, written on %s',
      async (_, writer) => {
        const follower = startFollower(two.log, TOPIC)
        await until('the follower is active', () => follower.gaps() === 1)
        for (let index = 1; index <= 10; index += 1) await one.log.append(TOPIC, posted(index))
        await follower.hasEntries(10)
        const cursor = follower.cursor()!
        await rewind(5)
        const appends = Array.from({ length: 7 }, (_, index) => writer().log.append(TOPIC, posted(101 + index)))
        await Promise.all(appends)
        await until('a gap', () => follower.gaps() === 2)
        await writer().log.append(TOPIC, posted(200))
        await until('the follower continues', () => textsOf(follower).at(-1) === 'msg_200')
        expect((await two.log.read(TOPIC, cursor, 100)).type).toBe('gap')
        await follower.stop()
      },
    )

    test('a log that returned to an older state causes a gap for a resuming reader, even before a write', async () => {
      const follower = startFollower(two.log, TOPIC)
      await until('the follower is active', () => follower.gaps() === 1)
      for (let index = 1; index <= 10; index += 1) await one.log.append(TOPIC, posted(index))
      await follower.hasEntries(10)
      const cursor = follower.cursor()!
      await rewind(5)
      // Simulates a server that started later than the one that began the epoch.
      await redis!.client.hset(`${prefix}log:{${TOPIC}}:meta`, 's', 'another')
      const [head] = await two.log.heads([TOPIC])
      expect(epochOf(head!)).not.toBe(epochOf(cursor))
      expect((await two.log.read(TOPIC, cursor, 100)).type).toBe('gap')
      await follower.stop()
    })

    test('a late signal changes nothing', async () => {
      const follower = startFollower(two.log, TOPIC)
      await until('the follower is active', () => follower.gaps() === 1)
      const rings: string[] = []
      const listener = redis!.client.duplicate()
      await listener.subscribe(`${prefix}log:{${TOPIC}}`)
      listener.on('message', (_channel, ring) => rings.push(ring))
      for (let index = 1; index <= 3; index += 1) await one.log.append(TOPIC, posted(index))
      await until('all signals have been published', () => rings.length === 3)
      for (const ring of [...rings]) await redis!.client.publish(`${prefix}log:{${TOPIC}}`, ring)
      await one.log.append(TOPIC, posted(4))
      expect((await follower.hasEntries(4)).length).toBe(4)
      expect(follower.gaps()).toBe(1)
      listener.disconnect()
      await follower.stop()
    })

    test('a topic whose entries were evicted has a gap, and continues', async () => {
      const [head] = await one.log.heads([TOPIC])
      await one.log.append(TOPIC, { type: 'SpaceUpdated' })
      await redis!.client.del(`${prefix}log:{${TOPIC}}`)
      expect((await one.log.read(TOPIC, head!, 10)).type).toBe('gap')
      const [end] = await one.log.heads([TOPIC])
      await one.log.append(TOPIC, { type: 'MemberLeft' })
      expect(await two.log.read(TOPIC, end!, 10)).toMatchObject({ publications: [{ event: { type: 'MemberLeft' } }] })
    })
  })
})
