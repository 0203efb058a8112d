import { sleep } from '../lib/async.ts'
import { encodeCursor, newEpoch, type Position } from './cursor.ts'
import type { Page } from './entry-window.ts'
import { type LogEvent, LogUnavailableError, type SizedEntry } from './event-log.ts'
import type { RedisConnection } from './redis.ts'
import type { Keys, ScriptedRedis } from './redis-scripts.ts'

const PAUSE_MS = 1000

/** A position, and the batch that wrote the entry there; '' before the first entry. */
export type KnownPosition = Position & { batch: string }

/** A page, the position of its end, and the batches of its entries. */
export type RedisPage = Page & { at: KnownPosition; batches: string[] }

export interface RedisReading {
  /**
   * Returns the position of the topic's last entry. Creates the topic if it does not exist. @throws
   * LogUnavailableError
   */
  head(topic: string): Promise<KnownPosition>
  /**
   * Returns the entries after a position, at most `limit`; or a gap. If the entry at a position with a known
   * batch differs in Redis, Redis has lost confirmed writes and the topic begins a new epoch.
   * @throws LogUnavailableError
   */
  page(topic: string, after: Position | KnownPosition, limit: number): Promise<RedisPage>
  /** Retries until Redis responds; returns null when the signal aborts. */
  retryWhileAway<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T | null>
}

export function createRedisReading(connection: RedisConnection, redis: ScriptedRedis, keys: Keys): RedisReading {
  return {
    async head(topic) {
      const [epoch, last, batch] = await connection.call(() => redis.logRead(...keys.topic(topic), newEpoch()))
      return { epoch, n: Number(last), batch }
    },
    async page(topic, after, limit) {
      const batch = 'batch' in after ? after.batch : ''
      const [epoch, last, lastBatch, entries] = await connection.call(() =>
        redis.logRead(...keys.topic(topic), newEpoch(), after.epoch, after.n, limit, batch),
      )
      if (!entries) {
        const end = { epoch, n: Number(last) }
        return { type: 'gap', end, at: { ...end, batch: lastBatch }, batches: [] }
      }
      const found = entries.map(([id, fields]) => entryOf(epoch, id, fields))
      const batches = entries.map(([, fields]) => fields[5]!)
      const at = { epoch, n: found.at(-1)?.n ?? after.n, batch: batches.at(-1) ?? batch }
      return { type: 'entries', entries: found, at, batches: [...new Set(batches)] }
    },
    async retryWhileAway(ask, signal) {
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

/** A stream entry has the fields `t` (time), `e` (event) and `b` (batch). */
function entryOf(epoch: string, id: string, [, at, , json]: string[]): SizedEntry {
  const n = Number.parseInt(id, 10)
  const event = JSON.parse(json!) as LogEvent
  return { n, bytes: Buffer.byteLength(json!), entry: { cursor: encodeCursor({ epoch, n }), at: Number(at), event } }
}
