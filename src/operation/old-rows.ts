import { Prisma } from '../generated/prisma/client.ts'
import type { IdPrefix } from '../lib/ids.ts'
import { withMessages, withRuns } from '../runs/tool-call-ends.ts'

// What grows old: how it is found, and how some of it goes. Ids are ordered by time, so that the primary key finds it.

/** A kind of rows that grow old. */
export interface OldRows {
  prefix: IdPrefix
  table: Prisma.Sql
  key: Prisma.Sql
  /** A condition on a row `t`. */
  isOld(before: Date): Prisma.Sql
  /** A column of `t`: of rows that differ in it, each has a batch of its own. */
  shared?: Prisma.Sql
  /** What is deleted with the rows `few`. */
  belongings: Prisma.Sql[]
  /** Once all of them are deleted, what is said of it in a row that others want too. */
  told?: (shared: string) => Prisma.Sql
}

/** A row that may go. */
export interface OldRow {
  id: string
  shared: string
}

const FEW = Prisma.sql`SELECT id FROM few`

/** Whole ones, with what became of them and the calls that they show; their space says from where on there are messages. */
export const MESSAGES: OldRows = {
  prefix: 'msg',
  table: Prisma.sql`"Message"`,
  key: Prisma.sql`id`,
  isOld: (before) => Prisma.sql`t."createdAt" < ${before} AND t.status IN ('COMPLETE', 'INTERRUPTED')`,
  shared: Prisma.sql`t."spaceId"`,
  belongings: [
    Prisma.sql`DELETE FROM "Outcome" WHERE "messageId" IN (${FEW})`,
    Prisma.sql`DELETE FROM "RootUsage" WHERE "rootId" IN (${FEW})`,
    withMessages(FEW),
  ],
  told: beginning,
}

/**
 * Where the space's messages begin now. What is posted meanwhile comes after the `lastSeq` that this statement sees; another process may have
 * deleted more than it sees.
 */
function beginning(spaceId: string): Prisma.Sql {
  const space = (column: string) => Prisma.sql`SELECT ${Prisma.raw(`"${column}"`)} FROM "Space" WHERE id = ${spaceId}`
  return Prisma.sql`
    UPDATE "Space" SET "firstSeq" = greatest("firstSeq", coalesce((
        SELECT m.seq FROM "Message" m WHERE m."spaceId" = ${spaceId} AND m.seq >= (${space('firstSeq')}) AND m.id NOT IN (${FEW})
        ORDER BY m.seq LIMIT 1), (${space('lastSeq')}) + 1))
    WHERE id = ${spaceId}`
}

/**
 * Those that are over, with their journals, events and calls, but for calls that show in a message. A mind goes on from what its
 * last cycle was shown: that run stays.
 */
export const RUNS: OldRows = {
  prefix: 'run',
  table: Prisma.sql`"Run"`,
  key: Prisma.sql`id`,
  isOld: (before) => Prisma.sql`t."finishedAt" < ${before} AND t.status IN ('COMPLETED', 'FAILED', 'CANCELED')
    AND NOT EXISTS (SELECT 1 FROM "ToolCall" c WHERE c."runId" = t.id AND (c.status = 'WAITING' OR c."carryAt" IS NOT NULL))
    AND NOT EXISTS (SELECT 1 FROM "Agent" a JOIN "Cycle" c ON c."agentId" = a.id AND c.index = a."cycleCount" - 1
      WHERE a.id = t."agentId" AND c."runId" = t.id)`,
  belongings: [
    withRuns(FEW),
    Prisma.sql`DELETE FROM "RunSpace" WHERE "runId" IN (${FEW})`,
    Prisma.sql`DELETE FROM "InboxEvent" WHERE "runId" IN (${FEW})`,
  ],
}

/** Inbox events of no cycle that there is: removed, dropped, answered before, or of one that was rolled back. */
export const EVENTS: OldRows = {
  prefix: 'inb',
  table: Prisma.sql`"InboxEvent"`,
  key: Prisma.sql`id`,
  isOld: (before) => Prisma.sql`t."doneAt" < ${before} AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r.id = t."runId")`,
  belongings: [],
}

/** Chains that have ended, and of which no run is left. */
export const CHAINS: OldRows = {
  prefix: 'chn',
  table: Prisma.sql`"Chain"`,
  key: Prisma.sql`id`,
  isOld: () => Prisma.sql`t."holderId" IS NULL AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r."chainId" = t.id)`,
  belongings: [],
}

/** What plans and services set off has cost; of messages that goes with them. */
export const ROOTS: OldRows = {
  prefix: 'trg',
  table: Prisma.sql`"RootUsage"`,
  key: Prisma.sql`"rootId"`,
  isOld: () => Prisma.sql`NOT EXISTS (SELECT 1 FROM "Run" r WHERE r."rootId" = t."rootId")`,
  belongings: [],
}

/** Of the audit log, which forbids it to whoever does not say that it is for their age, as every `removal` does. */
export const ENTRIES: OldRows = {
  prefix: 'aud',
  table: Prisma.sql`"AuditEntry"`,
  key: Prisma.sql`id`,
  isOld: (before) => Prisma.sql`t.at < ${before}`,
  belongings: [],
}

/** The first rows after an id that may go, at most so many. Answers with `OldRow`s. */
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

/** Ids are ordered by the clocks of the processes that made them. */
const CLOCK_SLACK_MS = 3_600_000

/** The first id that is younger: what is older lies before it in the order of ids. */
function idAt(prefix: IdPrefix, before: Date): string {
  return `${prefix}_${(before.getTime() + CLOCK_SLACK_MS).toString(16).padStart(12, '0')}${'0'.repeat(20)}`
}

/** One process at a time: whoever has this lock for a batch. */
const RETENTION_LOCK = 7_275_540

/**
 * Deletes rows that were found, where they may go still, in one statement, which is a transaction of its own: nothing is held while this process has other things to
 * do, nor until the disk has it, since what comes back after a crash is found again. What somebody holds just now is left for another
 * time. Answers with whether it was this process's turn, and how many went (`mine`, `done`).
 */
export function removal(
  { table, key, isOld, belongings, told }: OldRows,
  { before, ids, shared }: { before: Date; ids: readonly string[]; shared: string },
): Prisma.Sql {
  const parts = belongings.map((part, index) => Prisma.sql`${partOf(index)} AS (${part} RETURNING 1)`)
  const counts = belongings.map((_, index) => Prisma.sql`(SELECT count(*) FROM ${partOf(index)})`)
  // What a part of a statement reads from comes before it: others want that row, and shall not wait for anything else.
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
