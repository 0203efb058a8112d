import { decodeCursor, encodeCursor } from './cursor.ts'
import { deliveryOf } from './entry-window.ts'
import { type EventLog, type FollowOptions, KEPT_MS } from './event-log.ts'
import { deliveries } from './following.ts'
import { createIterations } from './iterations.ts'
import type { RedisConnection } from './redis.ts'
import { RedisAppender } from './redis-appender.ts'
import type { RedisChannels } from './redis-channels.ts'
import { createRedisDrafts } from './redis-drafts.ts'
import { createRedisReading } from './redis-reading.ts'
import { createKeys, defineScripts } from './redis-scripts.ts'
import { RedisTopicReader } from './redis-topic-reader.ts'

const HEALTH_TIMEOUT_MS = 900

/** A log in Redis, shared by every process that uses the same Redis and prefix. Redis Cluster is not supported. */
export function createRedisEventLog(connection: RedisConnection, channels: RedisChannels, prefix: string): EventLog {
  const keys = createKeys(prefix)
  const redis = defineScripts(connection.redis)
  const appender = new RedisAppender(connection, redis, keys, (topic) => prefix + bellOf(topic))
  const drafts = createRedisDrafts(connection, redis, keys)
  const reading = createRedisReading(connection, redis, keys)
  const iterations = createIterations()
  const readers = new Map<string, { reader: RedisTopicReader; followers: number }>()

  const stopListening = channels.onReconnect(() => {
    for (const { reader } of readers.values()) void reader.catchUp()
  })

  /** All followers of a topic share one reader, which lives as long as there is one. */
  async function* followTopic(topic: string, { after, onSlow }: FollowOptions, signal: AbortSignal) {
    const shared = readers.get(topic) ?? {
      reader: new RedisTopicReader(topic, bellOf(topic), channels, reading),
      followers: 0,
    }
    readers.set(topic, shared)
    shared.followers += 1
    try {
      yield* deliveries(shared.reader, after === undefined ? null : decodeCursor(after), signal, onSlow)
    } finally {
      shared.followers -= 1
      if (shared.followers === 0) {
        readers.delete(topic)
        shared.reader.stop()
      }
    }
  }

  return {
    append: (topic, event, options) => appender.append(topic, event, options),
    async appendDelta(topic, delta, whole, options) {
      const result = await appender.appendDelta(topic, delta, whole, options?.guard)
      return result.type === 'appended' ? result.cursor : null
    },
    drafts: (messageIds) => drafts.read(messageIds),
    finishDraft: (messageId) => drafts.finish(messageId),
    heads: (topics) => Promise.all(topics.map(async (topic) => encodeCursor(await reading.head(topic)))),
    async read(topic, after, limit) {
      const page = await reading.page(topic, decodeCursor(after), limit)
      return deliveryOf(page)
    },
    follow(topic, options) {
      if (options.after !== undefined) decodeCursor(options.after)
      return iterations.open(options.signal, (signal) => followTopic(topic, options, signal))
    },
    async seal(guard) {
      await connection.call(() => redis.set(keys.seal(guard), '1', 'PX', KEPT_MS))
    },
    async expire(topic, seconds) {
      await connection.call(() => redis.logExpire(...keys.topic(topic), Math.round(seconds * 1000)))
    },
    announced: (topics) =>
      connection.call(() =>
        Promise.all(topics.map(async (topic) => ordinalOf(await redis.hget(keys.topic(topic)[1], 'o')))),
      ),
    stats: () => ({ topics: readers.size, followers: iterations.count() }),
    async healthy() {
      const answers = await Promise.all([connection.answers(HEALTH_TIMEOUT_MS), channels.answers(HEALTH_TIMEOUT_MS)])
      return answers.every(Boolean)
    },
    async close() {
      stopListening()
      iterations.endAll()
      for (const { reader } of readers.values()) reader.stop()
      appender.close()
    },
  }
}

const bellOf = (topic: string) => `log:${topic}`
const ordinalOf = (field: string | null) => (field === null || field === '' ? null : Number(field))
