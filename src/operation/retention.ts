import { Prisma } from '../generated/prisma/client.ts'
import { sleep } from '../lib/async.ts'
import type { IdPrefix } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { withMessages, withRuns } from '../runs/tool-call-ends.ts'

/** What is older than the settings say is deleted. */
export interface RetentionUpkeep {
  /** Deletes what there is to delete, in small batches with pauses, as long as no other process does; at most some thousand rows. */
  sweep(): Promise<void>
}

/** One process at a time: whoever has this lock for a batch. */
const RETENTION_LOCK = 7_275_540
/** Rows of one batch: some milliseconds. */
const ROWS_AT_ONCE = 100
const BATCHES_A_SWEEP = 50
/** So that others come first who wait for the same rows, or for the only connection of an embedded database. */
const PAUSE_MS = 20
const DAY_MS = 86_400_000
/** Ids are ordered by the clocks of the processes that made them. */
const CLOCK_SLACK_MS = 3_600_000

/** Deletes one batch of what is older than a moment. @returns how many rows of its kind */
type Batch = (tx: Tx, before: Date) => Promise<number>

export function createRetention({ db, clock, config }: Platform): RetentionUpkeep {
  const { messagesDays, runsDays, auditDays } = config.retention
  const kinds: { days: number | null; batch: Batch }[] = [
    { days: messagesDays, batch: deleteMessages },
    { days: runsDays, batch: deleteRuns },
    { days: runsDays, batch: deleteEvents },
    { days: runsDays, batch: deleteChains },
    { days: runsDays, batch: deleteRoots },
    { days: auditDays, batch: deleteEntries },
  ]

  async function inTurn(batch: Batch, before: Date): Promise<number> {
    return db.transaction(async (tx) => {
      const [row] = await tx.$queryRaw<{ mine: boolean }[]>`SELECT pg_try_advisory_xact_lock(${RETENTION_LOCK}) AS mine`
      return row?.mine === true ? batch(tx, before) : 0
    })
  }

  return {
    async sweep() {
      for (const { days, batch } of kinds) {
        if (days === null) continue
        const before = new Date(clock.now() - days * DAY_MS)
        for (let count = 0; count < BATCHES_A_SWEEP; count++) {
          if ((await inTurn(batch, before)) < ROWS_AT_ONCE) break
          await sleep(PAUSE_MS)
        }
      }
    },
  }
}

/** The first id that is younger: what is older lies before it in the order of ids, which the primary key has. */
function idAt(prefix: IdPrefix, before: Date): string {
  return `${prefix}_${(before.getTime() + CLOCK_SLACK_MS).toString(16).padStart(12, '0')}${'0'.repeat(20)}`
}

/**
 * Whole ones, with what became of them and the calls that they show; then their spaces say from where on there are messages. Those
 * are locked last, in the order of their ids, and counted by a statement of its own: it sees what was posted while they were
 * waited for.
 */
async function deleteMessages(tx: Tx, before: Date): Promise<number> {
  const few = Prisma.sql`SELECT id FROM few`
  const gone = await tx.$queryRaw<{ spaceId: string }[]>`
    WITH few AS MATERIALIZED (
      SELECT id FROM "Message" WHERE id < ${idAt('msg', before)} AND "createdAt" < ${before} AND status IN ('COMPLETE', 'INTERRUPTED')
      ORDER BY id LIMIT ${ROWS_AT_ONCE}
    ), outcomes AS (
      DELETE FROM "Outcome" WHERE "messageId" IN (${few})
    ), roots AS (
      DELETE FROM "RootUsage" WHERE "rootId" IN (${few})
    ), calls AS (${withMessages(few)})
    DELETE FROM "Message" WHERE id IN (${few}) RETURNING "spaceId"`
  if (gone.length === 0) return 0
  const spaceIds = [...new Set(gone.map(({ spaceId }) => spaceId))]
  await tx.$executeRaw`SELECT 1 FROM "Space" WHERE id = ANY(${spaceIds}) ORDER BY id FOR NO KEY UPDATE`
  await tx.$executeRaw`
    UPDATE "Space" s SET "firstSeq" = coalesce((SELECT min(seq) FROM "Message" m WHERE m."spaceId" = s.id), s."lastSeq" + 1)
    WHERE s.id = ANY(${spaceIds})`
  return gone.length
}

/**
 * Those that are over, with their journals, events and calls, but for calls that show in a message. A mind goes on from what its
 * last cycle was shown: that run stays.
 */
async function deleteRuns(tx: Tx, before: Date): Promise<number> {
  const few = Prisma.sql`SELECT id FROM few`
  return tx.$executeRaw`
    WITH few AS MATERIALIZED (
      SELECT r.id FROM "Run" r WHERE r.id < ${idAt('run', before)} AND r."finishedAt" < ${before}
        AND r.status IN ('COMPLETED', 'FAILED', 'CANCELED')
        AND NOT EXISTS (SELECT 1 FROM "ToolCall" c WHERE c."runId" = r.id AND (c.status = 'WAITING' OR c."carryAt" IS NOT NULL))
        AND NOT EXISTS (SELECT 1 FROM "Agent" a JOIN "Cycle" c ON c."agentId" = a.id AND c.index = a."cycleCount" - 1
          WHERE a.id = r."agentId" AND c."runId" = r.id)
      ORDER BY r.id LIMIT ${ROWS_AT_ONCE}
    ), calls AS (${withRuns(few)}
    ), spaces AS (
      DELETE FROM "RunSpace" WHERE "runId" IN (${few})
    ), events AS (
      DELETE FROM "InboxEvent" WHERE "runId" IN (${few})
    )
    DELETE FROM "Run" WHERE id IN (${few})`
}

/** Of the audit log, which forbids it to whoever does not say that it is for their age. */
async function deleteEntries(tx: Tx, before: Date): Promise<number> {
  await tx.$executeRaw`SET LOCAL parley.retention = 'on'`
  return tx.$executeRaw`
    DELETE FROM "AuditEntry" WHERE id IN (
      SELECT id FROM "AuditEntry" WHERE at < ${before} ORDER BY at LIMIT ${ROWS_AT_ONCE})`
}

/** Inbox events of no cycle that there is: removed, dropped, answered before, or of one that was rolled back. */
function deleteEvents(tx: Tx, before: Date): Promise<number> {
  return tx.$executeRaw`
    DELETE FROM "InboxEvent" WHERE id IN (
      SELECT e.id FROM "InboxEvent" e WHERE e.id < ${idAt('inb', before)} AND e."doneAt" < ${before}
        AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r.id = e."runId")
      ORDER BY e.id LIMIT ${ROWS_AT_ONCE})`
}

/** Chains that have ended, and of which no run is left. */
function deleteChains(tx: Tx, before: Date): Promise<number> {
  return tx.$executeRaw`
    DELETE FROM "Chain" WHERE id IN (
      SELECT c.id FROM "Chain" c WHERE c.id < ${idAt('chn', before)} AND c."holderId" IS NULL
        AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r."chainId" = c.id)
      ORDER BY c.id LIMIT ${ROWS_AT_ONCE})`
}

/** What plans and services set off has cost; of messages that goes with them. */
function deleteRoots(tx: Tx, before: Date): Promise<number> {
  return tx.$executeRaw`
    DELETE FROM "RootUsage" WHERE "rootId" IN (
      SELECT u."rootId" FROM "RootUsage" u WHERE u."rootId" >= 'trg_' AND u."rootId" < ${idAt('trg', before)}
        AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r."rootId" = u."rootId")
      ORDER BY u."rootId" LIMIT ${ROWS_AT_ONCE})`
}
