import { randomInt } from 'node:crypto'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { createRecord, type Record } from '../access/record.ts'
import { type Broker, createBroker } from '../broker/broker.ts'
import { deliverLocally } from '../broker/signals.ts'
import { JOBS_CHANNEL } from '../broker/topics.ts'
import type { Config } from '../config.ts'
import { type Jobs, openJobs } from '../jobs/jobs.ts'
import { createDeltaJoiners } from '../lib/delta-joiner.ts'
import { messageOf } from '../lib/errors.ts'
import { logContext } from '../lib/log-context.ts'
import type { ModelRegistryOptions } from '../models/registry.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import type { Conductor } from '../platform/conductor.ts'
import { makeDataDirectory } from '../platform/data-directory.ts'
import { type Database, openDatabase } from '../platform/db.ts'
import { openFileStorage } from '../platform/file-storage/open.ts'
import { createMailer } from '../platform/mailer.ts'
import type { Platform, Racepoint } from '../platform/platform.ts'
import { inspectPostgres } from '../platform/postgres-check.ts'
import { createPublicUrl } from '../platform/public-url.ts'
import { createSecretBox } from '../platform/secret-box.ts'
import { keptSecret } from '../platform/secrets.ts'
import { faultsOf, StartFaults } from '../platform/start-faults.ts'
import type { AddressGuardOptions } from '../tools/custom/guarded-connector.ts'
import type { GuardedHttp } from '../tools/custom/guarded-http.ts'
import type { McpTools } from '../tools/mcp/mcp-tools.ts'

/** Replacements for tests and replays. */
export interface AppOptions {
  clock?: Clock
  models?: ModelRegistryOptions
  racepoint?: Racepoint
  /** The rules for connections to push services: public addresses, host names and certificates. */
  push?: AddressGuardOptions
  /** The prefix of all keys in Redis. Tests that share a Redis use different prefixes. */
  redisPrefix?: string
  /** Controls the order of the engine's work in a replay. Plans then fire only on request. */
  conductor?: Conductor
  /** An open database and its job queue. The caller closes them. */
  storage?: { db: Database; jobs: Jobs }
  /** Replaces the clients with which agents' tools reach other servers. */
  tools?: { http: GuardedHttp; mcp: McpTools }
  /** An additional startup check. Its errors are reported together with those of the database and Redis. */
  alsoCheck?: () => Promise<void>
}

/** The connections to the database, the queue and Redis. `close` closes them. */
export interface Outside {
  platform: Platform
  realtime: Broker
  record: Record
  close(): Promise<void>
}

/**
 * Opens the database, the queue and the broker. `close` closes them in the reverse order. Checks all settings before it
 * writes anything. @throws StartFaults with a line for each unusable setting
 */
export async function openOutside(config: Config, options: AppOptions): Promise<Outside> {
  const { clock = systemClock, racepoint = async () => {} } = options
  const logger = pino({ level: config.logLevel, mixin: () => ({ ...logContext() }) })
  const onError = (error: Error) =>
    logger.warn({ error: messageOf(error) }, 'the database connection reported an error')
  const metrics = new Registry()
  const { inspected, realtime } = await tryOutside(config, options, { logger, metrics })
  for (const warning of [...config.warnings, ...(inspected?.warnings ?? [])]) logger.warn(warning)
  const closing = [() => realtime.close()]
  const close = async () => {
    for (const closeOne of closing.splice(0).reverse()) await closeOne()
  }
  try {
    const { databaseUrl: url, directDatabaseUrl: directUrl, databaseConnections: poolSize, dataDirectory } = config
    // This check precedes the database, which must stay unchanged if DATA_DIR cannot be used.
    const secretKey = keptSecret(dataDirectory, 'secret-key', config.secretKey)
    const openStorage = async () => {
      const db = await openDatabase({
        url,
        directUrl,
        ...(inspected === null ? {} : { inspected }),
        dataDirectory,
        hasVectors: config.embeddingModel !== null,
        poolSize,
        onError,
        metrics,
      })
      closing.push(() => db.close())
      const jobs = await openJobs(db, { supervise: config.role !== 'api', onError })
      closing.push(() => jobs.close())
      return { db, jobs }
    }
    const { db, jobs } = options.storage ?? (await openStorage())
    const { log, signals } = realtime
    const files = openFileStorage(config.files)
    closing.push(() => files.close())
    const record = createRecord(db)
    const platform: Platform = {
      config,
      db: record.db,
      jobs,
      worker: randomInt(1, 2 ** 31 - 1),
      log,
      // Signals of a process to itself do not need Redis.
      signals: deliverLocally(signals, JOBS_CHANNEL),
      clock,
      publicUrl: createPublicUrl(config),
      mailer: createMailer(config),
      logger,
      metrics,
      secretBox: createSecretBox(secretKey.value, config.secretKeyBefore),
      files,
      deltas: createDeltaJoiners(),
      racepoint,
      ...(options.conductor === undefined ? {} : { conductor: options.conductor }),
    }
    return { platform, realtime, record, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Checks the database, the broker and DATA_DIR, and runs the additional check, all in parallel. */
async function tryOutside(
  config: Config,
  { redisPrefix, alsoCheck }: AppOptions,
  { logger, metrics }: Pick<Platform, 'logger' | 'metrics'>,
) {
  const { databaseUrl: url, directDatabaseUrl: directUrl } = config
  const outcomes = await Promise.allSettled([
    url === null ? null : inspectPostgres({ url, directUrl }),
    createBroker({
      redisUrl: config.redisUrl,
      logger,
      metrics,
      ...(redisPrefix ? { prefix: redisPrefix } : {}),
    }),
    tryDataDirectory(config),
    alsoCheck?.(),
  ])
  const [database, broker, directory] = outcomes
  const faults = outcomes.flatMap((one) => (one.status === 'rejected' ? faultsOf(one.reason) : []))
  if (database.status === 'fulfilled' && broker.status === 'fulfilled' && faults.length === 0)
    return { inspected: database.value, realtime: broker.value }
  if (broker.status === 'fulfilled') await broker.value.close()
  if (directory.status === 'fulfilled') directory.value()
  throw new StartFaults(faults)
}

/**
 * Creates DATA_DIR if this process stores anything in it. Returns a function that removes the directory if this call
 * has created it.
 */
async function tryDataDirectory({ databaseUrl, secretKey, adminToken, dataDirectory }: Config): Promise<() => void> {
  if (databaseUrl !== null && secretKey !== null && adminToken !== null) return () => {}
  return makeDataDirectory(dataDirectory)
}
