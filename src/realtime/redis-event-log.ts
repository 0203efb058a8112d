import { decodeCursor, encodeCursor } from './cursor.ts'
import { deliveryOf } from './entry-window.ts'
import type { AppendResult, EventLog, FollowOptions } from './event-log.ts'
import { deliveries } from './following.ts'
import { createIterations } from './iterations.ts'
import type { RealtimeLogger } from './logger.ts'
import type { RedisConnection } from './redis.ts'
import type { RedisChannels } from './redis-channels.ts'
import { readDrafts } from './redis-drafts.ts'
import { createRedisReading } from './redis-reading.ts'
import { createKeys, defineScripts } from './redis-scripts.ts'
import { RedisTopicReader } from './redis-topic-reader.ts'
import { RedisWriter } from './redis-writer.ts'

const HEALTH_TIMEOUT_MS = 900

export interface RedisEventLogOptions {
  prefix: string
  logger: RealtimeLogger
  /** How long a write waits for its outcome before it is deferred. */
  patienceMs: number
}

/** An event log in Redis, shared by all processes with the same Redis and prefix; and its writer. */
export function createRedisEventLog(
  connection: RedisConnection,
  channels: RedisChannels,
  { prefix, logger, patienceMs }: RedisEventLogOptions,
): { log: EventLog; writer: RedisWriter } {
  const keys = createKeys(prefix)
  const redis = defineScripts(connection.redis, channels.command)
  const bellOf = (topic: string) => `log:{${topic}}`
  const bell = (topic: string) => prefix + bellOf(topic)
  const writer = new RedisWriter({ connection, redis, keys, bell, logger, patienceMs })
  const reading = createRedisReading(connection, redis, keys)
  const iterations = createIterations()
  const readers = new Map<string, { reader: RedisTopicReader; followers: number }>()

  const stopListening = channels.onReconnect(() => {
    for (const { reader } of readers.values()) void reader.catchUp()
  })

  /** All subscribers of a topic share one reader, which is stopped after the last one. */
  async function* followTopic(topic: string, { after, ...hooks }: FollowOptions, signal: AbortSignal) {
    const shared = readers.get(topic) ?? {
      reader: new RedisTopicReader(topic, bellOf(topic), channels, reading),
      followers: 0,
    }
    readers.set(topic, shared)
    shared.followers += 1
    try {
      yield* deliveries(shared.reader, after === undefined ? null : decodeCursor(after), signal, hooks)
    } finally {
      shared.followers -= 1
      if (shared.followers === 0) {
        readers.delete(topic)
        shared.reader.stop()
      }
    }
  }

  const log: EventLog = {
    async append(topic, event, { unlessSealed, once, ordinal } = {}) {
      const json = JSON.stringify(event)
      return (await writer.write(topic, { type: 'event', json, unlessSealed, once, ordinal })) as AppendResult
    },
    async appendDelta(topic, delta, whole, { unlessSealed } = {}) {
      const result = await writer.write(topic, { type: 'text', delta, whole, unlessSealed, replaces: false })
      return result.type === 'appended' ? result.cursor : null
    },
    drafts: (topic, messageIds) => readDrafts({ connection, redis, keys }, topic, messageIds),
    async finishDraft(topic, messageId) {
      await writer.write(topic, { type: 'finish', messageId })
    },
    heads: (topics) => Promise.all(topics.map(async (topic) => encodeCursor(await reading.head(topic)))),
    async read(topic, after, limit) {
      const page = await reading.page(topic, decodeCursor(after), limit)
      return deliveryOf(page)
    },
    follow(topic, options) {
      if (options.after !== undefined) decodeCursor(options.after)
      return iterations.open(options.signal, (signal) => followTopic(topic, options, signal))
    },
    async seal(seal, topics) {
      await Promise.all(topics.map((topic) => writer.write(topic, { type: 'seal', seal })))
    },
    async expire(topic, seconds) {
      await writer.write(topic, { type: 'expire', ms: Math.round(seconds * 1000) })
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
      writer.close()
    },
  }
  return { log, writer }
}

const ordinalOf = (field: string | null) => (field === null || field === '' ? null : Number(field))
