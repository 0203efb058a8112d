import { randomUUID } from 'node:crypto'
import { rmSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type Jobs, openJobs } from '../jobs/jobs.ts'
import { type Database, openDatabase } from '../platform/db.ts'

/**
 * An embedded database in a temporary folder. Several replays use it one after another, because opening a database
 * takes longer than most replays.
 */
export interface Stage {
  folder: string
  storage: { db: Database; jobs: Jobs }
  /** Empties the stage for the next replay of this process, or closes it. */
  leave(): Promise<void>
  /** Closes the stage, and removes its folder. */
  close(): Promise<void>
}

let idle: Stage | null = null
/** How long an unused stage stays open for the next replay. It keeps the process alive during this time. */
const IDLE_MS = 1000

/** Returns an empty stage, either an unused one or a new one. */
export async function takeStage(): Promise<Stage> {
  const found = idle
  idle = null
  return found ?? openStage()
}

async function openStage(): Promise<Stage> {
  const folder = path.join(tmpdir(), `parley-replay-${randomUUID()}`)
  await mkdir(folder, { mode: 0o700 })
  const remove = () => rmSync(folder, { recursive: true, force: true })
  process.once('exit', remove)
  const storage = await openStorage(folder).catch((error) => {
    remove()
    throw error
  })
  let plays = 0

  async function close(): Promise<void> {
    process.off('exit', remove)
    await storage.jobs.close()
    await storage.db.close()
    remove()
  }

  const stage: Stage = {
    folder,
    storage,
    close,
    async leave() {
      if (idle !== null) return close()
      plays += 1
      await storage.db.prisma.$executeRawUnsafe(DELETE_ALL)
      // Nothing else vacuums an embedded database, and without a vacuum, scans also read the deleted rows.
      if (plays % PLAYS_PER_VACUUM === 0) await storage.db.prisma.$executeRawUnsafe('VACUUM')
      if (idle !== null) return close()
      idle = stage
      setTimeout(() => {
        if (idle !== stage) return
        idle = null
        void close()
      }, IDLE_MS)
    },
  }
  return stage
}

async function openStorage(folder: string): Promise<Stage['storage']> {
  const db = await openDatabase({ url: null, dataDirectory: folder })
  const jobs = await openJobs(db, { supervise: false, onError: () => {} })
  return { db, jobs }
}

const PLAYS_PER_VACUUM = 25

/** Deletes the rows of all tables. Triggers and foreign keys are disabled for this. */
const DELETE_ALL = `DO $$
  DECLARE item text;
  BEGIN
    SET LOCAL session_replication_role = replica;
    FOR item IN
      SELECT format('DELETE FROM %I.%I', schemaname, tablename) FROM pg_tables
      WHERE schemaname = 'public' AND tablename <> '_prisma_migrations' OR schemaname = 'pgboss' AND tablename = 'job_common'
    LOOP EXECUTE item; END LOOP;
  END $$`
