import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { EventLog } from '../broker/log.ts'
import type { Signals } from '../broker/signals.ts'
import type { Config } from '../config.ts'
import type { Jobs } from '../jobs/jobs.ts'
import type { DeltaJoiners } from '../lib/delta-joiner.ts'
import type { Clock } from './clock.ts'
import type { Conductor } from './conductor.ts'
import type { Database } from './db.ts'
import type { FileStorage } from './file-storage/file-storage.ts'
import type { Mailer } from './mailer.ts'
import type { PublicUrl } from './public-url.ts'
import type { SecretBox } from './secret-box.ts'

/** External services and other shared parts. app.ts opens them once and passes them to every module. */
export interface Platform {
  config: Config
  db: Database
  jobs: Jobs
  /** The number of this process. Rows that it has claimed contain this number. */
  worker: number
  log: EventLog
  signals: Signals
  clock: Clock
  publicUrl: PublicUrl
  /** The mailer; null if email is not configured. */
  mailer: Mailer | null
  logger: Logger
  /** The metrics of this process. Each module registers its own. */
  metrics: Registry
  secretBox: SecretBox
  /** The storage of PARLEY_FILES. */
  files: FileStorage
  /** Joins deltas of streamed text that have the same destination. */
  deltas: DeltaJoiners
  racepoint: Racepoint
  /** The conductor of a replay; absent otherwise. */
  conductor?: Conductor
}

/**
 * Does nothing, except in tests, which can pause this process here while other processes continue. `claimed`: the
 * database has assigned runs to this worker, but the worker has not received them yet.
 */
export type Racepoint = (point: 'claimed') => Promise<void>
