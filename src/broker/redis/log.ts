// The event log in Redis. It combines a writer, one reader per followed topic, the drafts and a probe.
import { decodeCursor, encodeCursor } from '../cursor.ts'
import { batches, createIterations } from '../follow.ts'
import { type AppendResult, type EventLog, type FollowOptions, storedEvent } from '../log.ts'
import type { BrokerLogger } from '../logger.ts'
import { toLogBatch } from '../window.ts'
import type { RedisChannels } from './channels.ts'
import type { RedisConnection } from './connection.ts'
import { readDrafts } from './drafts.ts'
import { createProbe, type Probe } from './probe.ts'
import { createRedisReading, RedisTopicReader } from './reader.ts'
import type { ChannelRoutes } from './routes.ts'
import { createKeys, defineScripts } from './scripts.ts'
import { RedisWriter } from './writer.ts'

const HEALTH_TIMEOUT_MS = 900

export interface RedisEventLogOptions {
  prefix: string
  logger: BrokerLogger
  /** How long a write waits for Redis before it is deferred. */
  patienceMs: number
  routes: ChannelRoutes
}

/**
 * Creates an event log in Redis, which all processes with the same Redis and prefix share. Also returns the log's
 * writer and probe.
 */
export function createRedisEventLog(
  connection: RedisConnection,
  channels: RedisChannels,
  { prefix, logger, patienceMs, routes }: RedisEventLogOptions,
): { log: EventLog; writer: RedisWriter; probe: Probe } {
  const keys = createKeys(prefix)
  const redis = defineScripts(connection.redis, channels.command)
  const wakeUpNameOf = (topic: string) => `log:{${topic}}`
  const wakeUpChannel = (topic: string) => prefix + wakeUpNameOf(topic)
  const writer = new RedisWriter({ connection, redis, keys, wakeUpChannel, logger, patienceMs })
  const reading = createRedisReading(connection, redis, keys)
  const probe = createProbe({ connection, redis, keys, channels, routes, prefix, wakeUpNameOf })
  const iterations = createIterations()
  const readers = new Map<string, { reader: RedisTopicReader; followers: number }>()

  const stopListening = channels.onReconnect(() => {
    for (const { reader } of readers.values()) void reader.catchUp()
  })

  /** All subscribers of a topic share one reader, which stops when the last subscriber ends. */
  async function* followTopic(topic: string, { after, ...hooks }: FollowOptions, signal: AbortSignal) {
    const shared = readers.get(topic) ?? {
      reader: new RedisTopicReader(topic, wakeUpNameOf(topic), channels, reading),
      followers: 0,
    }
    readers.set(topic, shared)
    shared.followers += 1
    try {
      yield* batches(shared.reader, after === undefined ? null : decodeCursor(after), signal, hooks)
    } finally {
      shared.followers -= 1
      if (shared.followers === 0) {
        readers.delete(topic)
        shared.reader.stop()
      }
    }
  }

  const log: EventLog = {
    async append(topic, event, options = {}) {
      const { unlessSealed, once, ordinal, isFirst = false, forgets = false } = options
      const json = JSON.stringify(storedEvent(event, options))
      const operation = { type: 'event', json, unlessSealed, once, ordinal, isFirst, forgets } as const
      return (await writer.write(topic, operation)) as AppendResult
    },
    async appendDelta(topic, delta, whole, { unlessSealed } = {}) {
      const result = await writer.write(topic, { type: 'text', delta, whole, unlessSealed, replaces: false })
      return result.type === 'appended' ? result.cursor : null
    },
    async replaceText(topic, replacement, whole, { unlessSealed } = {}) {
      const { messageId, partIndex } = replacement
      const delta = { messageId, partIndex, offset: 0, delta: whole }
      const event = { type: 'MessageTextReplaced', ...replacement }
      const operation = { type: 'text' as const, delta, whole: () => whole, unlessSealed, replaces: true, event }
      const result = await writer.write(topic, operation)
      return result.type === 'appended' ? result.cursor : null
    },
    drafts: (topic, messageIds) => readDrafts({ connection, redis, keys }, topic, messageIds),
    async finishDraft(topic, messageId) {
      await writer.write(topic, { type: 'finish', messageId })
    },
    heads: (topics) => Promise.all(topics.map(async (topic) => encodeCursor(await reading.head(topic)))),
    async read(topic, after, limit) {
      const page = await reading.page(topic, decodeCursor(after), limit)
      return toLogBatch(page)
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
    lastOrdinals: (topics) =>
      connection.call(() =>
        Promise.all(topics.map(async (topic) => ordinalOf(await redis.hget(keys.topic(topic)[1], 'o')))),
      ),
    stats: () => ({ topics: readers.size, followers: iterations.count() }),
    async healthy() {
      const answers = await Promise.all([
        connection.answers(HEALTH_TIMEOUT_MS),
        channels.answers(HEALTH_TIMEOUT_MS),
        probe.passes(HEALTH_TIMEOUT_MS),
      ])
      return answers.every(Boolean)
    },
    async close() {
      stopListening()
      iterations.endAll()
      for (const { reader } of readers.values()) reader.stop()
      writer.close()
    },
  }
  return { log, writer, probe }
}

const ordinalOf = (field: string | null) => (field === null || field === '' ? null : Number(field))
