import { randomInt } from 'node:crypto'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import type { Config } from '../config.ts'
import { createDeltaJoiners } from '../lib/delta-joiner.ts'
import { messageOf } from '../lib/errors.ts'
import { logContext } from '../lib/log-context.ts'
import type { ModelRegistryOptions } from '../models/registry.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { openDatabase } from '../platform/db.ts'
import { openJobs } from '../platform/jobs.ts'
import type { Platform, Racepoint } from '../platform/platform.ts'
import { createRecord, type Record } from '../platform/record.ts'
import { createSecretBox } from '../platform/secret-box.ts'
import { keptSecret } from '../platform/secrets.ts'
import { heardHere } from '../realtime/heard-here.ts'
import { createRealtime, type Realtime } from '../realtime/realtime.ts'
import { JOBS_CHANNEL } from '../realtime/topics.ts'

/** Replacements for tests. */
export interface AppOptions {
  clock?: Clock
  models?: ModelRegistryOptions
  racepoint?: Racepoint
  /** The prefix of all keys in Redis. Tests that share a Redis use different ones. */
  redisPrefix?: string
}

/** The connections to the outside, and how to close them. */
export interface Outside {
  platform: Platform
  realtime: Realtime
  record: Record
  close(): Promise<void>
}

/**
 * Opens database, queue and realtime once; `close` closes them in the opposite order.
 * @throws where one of them cannot be used, with one readable line.
 */
export async function openOutside(config: Config, options: AppOptions): Promise<Outside> {
  const { clock = systemClock, racepoint = async () => {}, redisPrefix } = options
  const logger = pino({ level: config.logLevel, mixin: () => ({ ...logContext() }) })
  for (const warning of config.warnings) logger.warn(warning)
  const onError = (error: Error) =>
    logger.warn({ error: messageOf(error) }, 'the database connection reported an error')
  const metrics = new Registry()
  const { databaseUrl: url, databaseConnections: poolSize, dataDirectory } = config
  const db = await openDatabase({ url, dataDirectory, poolSize, onError, metrics })
  const closing = [() => db.close()]
  const close = async () => {
    for (const closeOne of closing.splice(0).reverse()) await closeOne()
  }
  try {
    const realtime = await createRealtime({
      redisUrl: config.redisUrl,
      logger,
      metrics,
      ...(redisPrefix ? { prefix: redisPrefix } : {}),
    })
    closing.push(() => realtime.close())
    const jobs = await openJobs(db, { supervise: config.role !== 'api', onError })
    closing.push(() => jobs.close())
    const secretKey = keptSecret(config.dataDirectory, 'secret-key', config.secretKey)
    const { log, signals } = realtime
    const record = createRecord(db)
    const platform: Platform = {
      config,
      db: record.db,
      jobs,
      worker: randomInt(1, 2 ** 31 - 1),
      log,
      // Signals for the process that sent them need not pass through Redis.
      signals: heardHere(signals, JOBS_CHANNEL),
      clock,
      logger,
      metrics,
      secretBox: createSecretBox(secretKey.value, config.secretKeyBefore),
      deltas: createDeltaJoiners(),
      racepoint,
    }
    return { platform, realtime, record, close }
  } catch (error) {
    await close()
    throw error
  }
}
