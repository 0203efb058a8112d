import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { Config } from '../config.ts'
import type { DeltaJoiners } from '../lib/delta-joiner.ts'
import type { EventLog } from '../realtime/event-log.ts'
import type { Signals } from '../realtime/signals.ts'
import type { Clock } from './clock.ts'
import type { Database } from './db.ts'
import type { Jobs } from './jobs.ts'
import type { SecretBox } from './secret-box.ts'

/** The outside, opened once by app.ts and handed to every part. */
export interface Platform {
  config: Config
  db: Database
  jobs: Jobs
  /** A number of this process's own, by which rows say whose hands they are in. */
  worker: number
  log: EventLog
  signals: Signals
  clock: Clock
  logger: Logger
  /** Figures for who watches this process: each part registers its own. */
  metrics: Registry
  secretBox: SecretBox
  /** Text that streams into one place is sent together. */
  deltas: DeltaJoiners
  racepoint: Racepoint
}

/**
 * Where a test holds this process between two of its steps, so that what others do in between happens for sure. Nothing, otherwise.
 * `claimed`: runs are this worker's by their rows, and it does not know yet.
 */
export type Racepoint = (point: 'claimed') => Promise<void>
