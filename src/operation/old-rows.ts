import { Prisma } from '../generated/prisma/client.ts'
import type { IdPrefix } from '../lib/ids.ts'
import { deleteCallsOfMessagesSql, deleteCallsOfRunsSql } from '../stores/call-store.ts'
import { deleteEventsOfRunsSql } from '../stores/inbox-store.ts'
import { deleteOutcomesSql } from '../stores/outcome-store.ts'
import { deleteSpacesOfRunsSql } from '../stores/run-store.ts'
import { beginAfterSql } from '../stores/space-store.ts'
import { ENDED_RUNS_SQL, FINAL_MESSAGES_SQL } from '../stores/status-sql.ts'
import { deleteThreadsSql } from '../stores/thread-store.ts'
import { deleteRootUsageSql } from '../stores/usage-store.ts'

// Finds and deletes old rows. Ids are ordered by time, so the index of the primary key finds old rows.

/** A kind of row that retention deletes when it reaches a certain age. */
export interface OldRows {
  prefix: IdPrefix
  table: Prisma.Sql
  key: Prisma.Sql
  /** Returns a condition on a row `t`. */
  isOld(before: Date): Prisma.Sql
  /** A column of `t`. All rows of a batch have the same value in this column. */
  shared?: Prisma.Sql
  /** Statements that delete rows which depend on the rows of the subquery `few`. */
  belongings: Prisma.Sql[]
  /**
   * Returns a statement that updates a row which other transactions often change. The statement is executed after the
   * deletions.
   */
  told?: (shared: string) => Prisma.Sql
}

/** A row that can be deleted. */
export interface OldRow {
  id: string
  shared: string
}

const FEW = Prisma.sql`SELECT id FROM few`

/**
 * Completed messages, with their outcomes and the calls that they show. The space's row stores which message is now the
 * first.
 */
export const MESSAGES: OldRows = {
  prefix: 'msg',
  table: Prisma.sql`"Message"`,
  key: Prisma.sql`id`,
  isOld: (before) => Prisma.sql`t."createdAt" < ${before} AND t.status IN ${FINAL_MESSAGES_SQL}`,
  shared: Prisma.sql`t."spaceId"`,
  belongings: [
    deleteOutcomesSql(FEW),
    deleteRootUsageSql(FEW),
    deleteCallsOfMessagesSql(FEW),
    ...deleteThreadsSql(FEW),
  ],
  told: (spaceId) => beginAfterSql(spaceId, FEW),
}

/**
 * Ended runs, with journals, events and calls, except calls that a message shows. The last cycle of an agent is kept,
 * because the next cycle continues from its messages.
 */
export const RUNS: OldRows = {
  prefix: 'run',
  table: Prisma.sql`"Run"`,
  key: Prisma.sql`id`,
  isOld: (before) => Prisma.sql`t."finishedAt" < ${before} AND t.status IN ${ENDED_RUNS_SQL}
    AND NOT EXISTS (SELECT 1 FROM "ToolCall" c WHERE c."runId" = t.id AND (c.status = 'WAITING' OR c."carryAt" IS NOT NULL))
    AND NOT EXISTS (SELECT 1 FROM "Agent" a JOIN "Cycle" c ON c."agentId" = a.id AND c.index = a."cycleCount" - 1
      WHERE a.id = t."agentId" AND c."runId" = t.id)`,
  belongings: [deleteCallsOfRunsSql(FEW), deleteSpacesOfRunsSql(FEW), deleteEventsOfRunsSql(FEW)],
}

/**
 * Inbox events that belong to no cycle: events that were removed, dropped or already answered, or whose cycle was
 * rolled back.
 */
export const EVENTS: OldRows = {
  prefix: 'inb',
  table: Prisma.sql`"InboxEvent"`,
  key: Prisma.sql`id`,
  isOld: (before) => Prisma.sql`t."doneAt" < ${before} AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r.id = t."runId")`,
  belongings: [],
}

/** Ended chains without runs. */
export const CHAINS: OldRows = {
  prefix: 'chn',
  table: Prisma.sql`"Chain"`,
  key: Prisma.sql`id`,
  isOld: () => Prisma.sql`t."holderId" IS NULL AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r."chainId" = t.id)`,
  belongings: [],
}

/** The usage of roots that plans and services started. The usage of a message is deleted with the message. */
export const ROOTS: OldRows = {
  prefix: 'trg',
  table: Prisma.sql`"RootUsage"`,
  key: Prisma.sql`"rootId"`,
  isOld: () => Prisma.sql`NOT EXISTS (SELECT 1 FROM "Run" r WHERE r."rootId" = t."rootId")`,
  belongings: [],
}

/** Standing grants that have ended and to which no call refers anymore. Every grant expires eventually. */
export const GRANTS: OldRows = {
  prefix: 'grt',
  table: Prisma.sql`"StandingGrant"`,
  key: Prisma.sql`id`,
  isOld: (before) =>
    Prisma.sql`t."expiresAt" < ${before} AND NOT EXISTS (SELECT 1 FROM "ToolCall" c WHERE c."grantId" = t.id)`,
  belongings: [],
}

/**
 * Entries of the audit log. A database trigger rejects their deletion unless the transaction declares that it deletes
 * old rows. Each statement of `removal` declares this.
 */
export const ENTRIES: OldRows = {
  prefix: 'aud',
  table: Prisma.sql`"AuditEntry"`,
  key: Prisma.sql`id`,
  isOld: (before) => Prisma.sql`t.at < ${before}`,
  belongings: [],
}

/** Returns a statement that selects at most `limit` old rows with ids after the given one, as `OldRow`s. */
export function search(
  kind: OldRows,
  { before, after, most }: { before: Date; after: string; most: number },
): Prisma.Sql {
  const { prefix, table, key, shared = Prisma.sql`''` } = kind
  return Prisma.sql`
    SELECT t.${key} AS id, ${shared} AS shared FROM ${table} t
    WHERE t.${key} > ${after} AND t.${key} < ${idAt(prefix, before)} AND ${kind.isOld(before)}
    ORDER BY t.${key} LIMIT ${most}`
}

/** The assumed maximum difference between the clocks of the processes that created the ids. */
const CLOCK_SLACK_MS = 3_600_000

/** Returns an id that is greater than the ids of all old rows. */
function idAt(prefix: IdPrefix, before: Date): string {
  return `${prefix}_${(before.getTime() + CLOCK_SLACK_MS).toString(16).padStart(12, '0')}${'0'.repeat(20)}`
}

/** The key of the advisory lock that lets only one process at a time delete a batch. */
const RETENTION_LOCK = 7_275_540

/**
 * Returns the statement that deletes the found rows, except those that have changed and must be kept. Locked rows are
 * skipped. The statement is a transaction of its own, so the process holds no lock between batches. Its commit does not
 * wait for the disk, because rows that reappear after a crash are found again. The statement returns whether this
 * process had the retention lock (`mine`), and the number of deleted rows (`done`).
 */
export function removal(
  { table, key, isOld, belongings, told }: OldRows,
  { before, ids, shared }: { before: Date; ids: readonly string[]; shared: string },
): Prisma.Sql {
  const parts = belongings.map((part, index) => Prisma.sql`${partOf(index)} AS (${part} RETURNING 1)`)
  const counts = belongings.map((_, index) => Prisma.sql`(SELECT count(*) FROM ${partOf(index)})`)
  // Other transactions often change this row, so its update must come last and hold the lock only briefly. PostgreSQL
  // executes a part of the statement after the parts from which it reads.
  const last =
    told &&
    Prisma.sql`told AS (${told(shared)} AND ${Prisma.join([Prisma.sql`(SELECT count(*) FROM gone)`, ...counts], ' + ')} > 0)`
  return Prisma.sql`
    WITH turn AS MATERIALIZED (
      SELECT pg_try_advisory_xact_lock(${RETENTION_LOCK}) AS mine, set_config('synchronous_commit', 'off', true),
        set_config('parley.retention', 'on', true)
    ), few AS MATERIALIZED (
      SELECT t.${key} AS id FROM turn, ${table} t WHERE turn.mine AND t.${key} = ANY(${[...ids]}::text[]) AND ${isOld(before)}
      FOR UPDATE OF t SKIP LOCKED
    ), ${Prisma.join([...parts, Prisma.sql`gone AS (DELETE FROM ${table} WHERE ${key} IN (${FEW}) RETURNING 1)`, ...(last ? [last] : [])])}
    SELECT mine, (SELECT count(*)::int FROM few) AS done FROM turn`
}

const partOf = (index: number) => Prisma.raw(`part${index}`)
