import { sleep } from '../lib/async.ts'
import { encodeCursor, newEpoch, type Position } from './cursor.ts'
import type { Page, SizedEntry } from './entry-window.ts'
import { type LogEvent, LogUnavailableError } from './event-log.ts'
import type { RedisConnection } from './redis.ts'
import type { Keys, ScriptedRedis } from './redis-scripts.ts'

const PAUSE_MS = 1000

/** Reads topics from Redis. */
export interface RedisReading {
  /** After the topic's last entry; the topic is made when there is none. @throws LogUnavailableError */
  head(topic: string): Promise<Position>
  /** The entries after a position, at most `limit`, or a gap. @throws LogUnavailableError */
  page(topic: string, after: Position, limit: number): Promise<Page>
  /** Asks again until there is an answer; null when the signal aborts. */
  patiently<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T | null>
}

export function createRedisReading(connection: RedisConnection, redis: ScriptedRedis, keys: Keys): RedisReading {
  return {
    async head(topic) {
      const [epoch, last] = await connection.call(() => redis.logRead(...keys.topic(topic), newEpoch()))
      return { epoch, n: Number(last) }
    },
    async page(topic, after, limit) {
      const [epoch, last, entries] = await connection.call(() =>
        redis.logRead(...keys.topic(topic), newEpoch(), after.epoch, after.n, limit),
      )
      if (!entries) return { type: 'gap', end: { epoch, n: Number(last) } }
      return { type: 'entries', entries: entries.map(([id, fields]) => entryOf(epoch, id, fields)) }
    },
    async patiently(ask, signal) {
      while (!signal.aborted) {
        try {
          return await ask()
        } catch (error) {
          if (!(error instanceof LogUnavailableError)) throw error
          await sleep(PAUSE_MS, signal)
        }
      }
      return null
    },
  }
}

/** The fields of a stream entry are `t`, the time, and `e`, the event. */
function entryOf(epoch: string, id: string, [, at, , json]: string[]): SizedEntry {
  const n = Number.parseInt(id, 10)
  const event = JSON.parse(json!) as LogEvent
  return { n, bytes: Buffer.byteLength(json!), entry: { cursor: encodeCursor({ epoch, n }), at: Number(at), event } }
}
