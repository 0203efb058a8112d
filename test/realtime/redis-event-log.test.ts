import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { KEPT_EMPTY_MS, KEPT_FINISHED_DRAFT_MS, KEPT_MS } from '../../src/realtime/event-log.ts'
import { createRealtime, type Realtime } from '../../src/realtime/realtime.ts'
import { describeEventLog } from '../contracts/event-log-contract.ts'
import { startFollower } from '../support/log-follower.ts'
import { openTestRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const redis = await openTestRedis()
let opened = 0

/** A prefix of which nothing is used yet. */
function newPrefix(): string {
  opened += 1
  return `${redis!.prefix}${opened}:`
}

describe.skipIf(redis === null)('with Redis', () => {
  afterAll(() => redis!.release())

  describeEventLog('Redis', async () => {
    const { log, close } = await createRealtime({ redisUrl: redis!.url, prefix: newPrefix() })
    return { ...log, close }
  })

  describe('shared by processes', () => {
    const TOPIC = 'space:one'
    let prefix: string
    let one: Realtime
    let two: Realtime

    beforeEach(async () => {
      prefix = newPrefix()
      one = await createRealtime({ redisUrl: redis!.url, prefix })
      two = await createRealtime({ redisUrl: redis!.url, prefix })
    })
    afterEach(() => Promise.all([one.close(), two.close()]))

    const ttl = (key: string) => redis!.client.pttl(prefix + key)
    const delta = { messageId: 'msg_1', partIndex: 0, offset: 0, delta: 'text' }

    test('what one appends the other follows, and both know the conditions', async () => {
      const follower = startFollower(two.log, TOPIC)
      await until('it stands', () => follower.gaps() === 1)
      await one.log.append(TOPIC, { type: 'MessagePosted', messageId: 'msg_1' }, { ordinal: 1, once: 'a' })
      await one.log.appendDelta(TOPIC, delta, () => 'text')
      await follower.hasEntries(2)
      expect(await two.log.append(TOPIC, { type: 'SpaceUpdated' }, { once: 'a' })).toEqual({ type: 'duplicate' })
      expect(await two.log.append(TOPIC, { type: 'SpaceUpdated' }, { ordinal: 1 })).toEqual({ type: 'duplicate' })
      expect(await two.log.announced([TOPIC])).toEqual([1])
      expect((await two.log.drafts(['msg_1'])).get('msg_1')?.get(0)).toBe('text')
      await one.log.seal('run_1')
      expect(await two.log.append(TOPIC, { type: 'SpaceUpdated' }, { guard: 'run_1' })).toEqual({ type: 'sealed' })
      const more = { ...delta, offset: 4, delta: '!' }
      await two.log.appendDelta(TOPIC, more, () => 'text!')
      expect((await one.log.drafts(['msg_1'])).get('msg_1')?.get(0)).toBe('text!')
      await follower.stop()
    })

    test('followers of one topic share one subscription, and the last one ends it', async () => {
      const channel = `${prefix}log:${TOPIC}`
      const subscribers = async () => ((await redis!.client.pubsub('NUMSUB', channel)) as [string, number])[1]
      const followers = Array.from({ length: 10 }, () => startFollower(one.log, TOPIC))
      await until('all stand', () => followers.every((follower) => follower.gaps() === 1))
      expect(await subscribers()).toBe(1)
      for (const follower of followers) await follower.stop()
      await until('the subscription is gone', async () => (await subscribers()) === 0)
    })

    test('a doorbell is believed only where it follows on', async () => {
      const follower = startFollower(two.log, TOPIC)
      await until('it stands', () => follower.gaps() === 1)
      const [epoch] = Buffer.from(follower.cursor()!, 'base64url').toString().split('.')
      const ring = { at: 1, bytes: [10], events: [{ type: 'Forged' }] }
      const forged = [
        { ...ring, epoch, first: 5, last: 5 },
        { ...ring, epoch: 'f'.repeat(16), first: 1, last: 1 },
        { ...ring, epoch, first: 0, last: 0 },
        'nonsense',
        null,
      ]
      for (const message of forged) await redis!.client.publish(`${prefix}log:${TOPIC}`, JSON.stringify(message))
      await one.log.append(TOPIC, { type: 'MemberJoined' })
      await one.log.append(TOPIC, { type: 'MemberLeft' })
      expect((await follower.hasEntries(2)).map(({ event }) => event.type)).toEqual(['MemberJoined', 'MemberLeft'])
      expect(follower.gaps()).toBe(1)
      await follower.stop()
    })

    test('everything expires', async () => {
      await one.log.heads(['space:empty'])
      expect(await ttl('log:space:empty:meta')).toBeLessThanOrEqual(KEPT_EMPTY_MS)
      await one.log.append(TOPIC, { type: 'SpaceUpdated' }, { once: 'a' })
      await one.log.appendDelta(TOPIC, delta, () => 'text')
      await one.log.appendDelta(TOPIC, { ...delta, partIndex: 1 }, () => 'text')
      await one.log.seal('run_1')
      const keys = (await redis!.client.keys(`${prefix}*`)).map((key) => key.slice(prefix.length))
      expect(keys.toSorted()).toEqual([
        'draft:msg_1',
        'draft:msg_1:0',
        'draft:msg_1:1',
        'log:space:empty:meta',
        'log:space:one',
        'log:space:one:meta',
        'log:space:one:once',
        'sealed:run_1',
      ])
      for (const key of keys) {
        expect(await ttl(key), key).toBeGreaterThan(key.includes('empty') ? 0 : KEPT_MS - 10_000)
        expect(await ttl(key), key).toBeLessThan(KEPT_MS + 3_600_000)
      }
    })

    test('a finished draft and an ended topic expire sooner, and appending does not prolong that', async () => {
      await one.log.append(TOPIC, { type: 'SpaceUpdated' }, { once: 'a' })
      await one.log.appendDelta(TOPIC, delta, () => 'text')
      await one.log.finishDraft('msg_1')
      await one.log.expire(TOPIC, 3600)
      await one.log.append(TOPIC, { type: 'SpaceUpdated' }, { once: 'b' })
      for (const key of ['draft:msg_1', 'draft:msg_1:0']) {
        expect(await ttl(key), key).toBeGreaterThan(0)
        expect(await ttl(key), key).toBeLessThanOrEqual(KEPT_FINISHED_DRAFT_MS)
      }
      for (const key of ['log:space:one', 'log:space:one:meta', 'log:space:one:once']) {
        expect(await ttl(key), key).toBeGreaterThan(0)
        expect(await ttl(key), key).toBeLessThanOrEqual(3_600_000)
      }
    })

    test('a part whose text alone was evicted is written whole again', async () => {
      await one.log.appendDelta(TOPIC, delta, () => 'text')
      await redis!.client.del(`${prefix}draft:msg_1:0`)
      await one.log.appendDelta(TOPIC, { ...delta, offset: 4, delta: '!' }, () => 'text!')
      expect((await two.log.drafts(['msg_1'])).get('msg_1')?.get(0)).toBe('text!')
    })

    test('a topic whose entries alone were evicted is a gap, and goes on', async () => {
      const [head] = await one.log.heads([TOPIC])
      await one.log.append(TOPIC, { type: 'SpaceUpdated' })
      await redis!.client.del(`${prefix}log:${TOPIC}`)
      expect((await one.log.read(TOPIC, head!, 10)).type).toBe('gap')
      const [end] = await one.log.heads([TOPIC])
      await one.log.append(TOPIC, { type: 'MemberLeft' })
      expect(await two.log.read(TOPIC, end!, 10)).toMatchObject({ entries: [{ event: { type: 'MemberLeft' } }] })
    })
  })
})
