import { type OutcomeKind, Prisma } from '../generated/prisma/client.ts'
import { jsonbText } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import { ANSWERED, type Verdict } from '../rules/routing.ts'
import type { Unpublished } from './change-store.ts'
import { ACTIVE_RUNS_SQL } from './status-sql.ts'

// Contains the statements that write the table "Outcome". An outcome is the result of a message for one agent of its
// space.

/** A change, after routing, to the outcome of a message for an agent. */
export interface OutcomeChange {
  messageId: string
  agentId: string
  kind: OutcomeKind
  reason: string | null
  /** The first line of the error if the outcome is FAILED. */
  error?: string | null
  runId: string | null
  /**
   * Set for a think cycle whose run is deleted. Contains the marks of the cycle, and the times at which it began and
   * ended, in milliseconds since 1970.
   */
  cycle?: { label: readonly string[]; readingSince: number | null; readAt: number | null }
}

const DUPLICATE = 'This message has already triggered the agent.'

/**
 * SQL condition for overwriting an outcome: the new outcome is more informative. A message that was answered before
 * it was routed may already have woken an agent by a mention. In that case, the outcome of the mention is kept.
 */
const SAYS_MORE = Prisma.sql`CASE WHEN "Outcome".kind IN ('RUN', 'INBOX') THEN excluded.kind = 'DUPLICATE'
  ELSE "Outcome".kind NOT IN ('SKIPPED', 'FAILED', 'DROPPED') AND excluded.kind <> 'NOT_ROUTED' END`

/** The action of an upsert for an outcome that already exists. */
const ON_CONFLICT = {
  overwrite: Prisma.sql`DO UPDATE SET kind = excluded.kind, reason = excluded.reason, error = excluded.error, "runId" = excluded."runId",
    label = excluded.label, "readingSince" = excluded."readingSince", "readAt" = excluded."readAt"`,
  keep: Prisma.sql`DO NOTHING`,
  overwriteIfItSaysMore: Prisma.sql`DO UPDATE SET kind = excluded.kind, reason = excluded.reason, error = coalesce(excluded.error, "Outcome".error),
    "runId" = coalesce(excluded."runId", "Outcome"."runId") WHERE ${SAYS_MORE}`,
}

const COLUMNS = Prisma.sql`"messageId", "agentId", kind, reason, error, "runId"`
const COLUMNS_OF_CYCLE = Prisma.sql`${COLUMNS}, label, "readingSince", "readAt"`

/** @param rows a SELECT of `columns`, in this order */
const upsertSql = (rows: Prisma.Sql, existing: keyof typeof ON_CONFLICT, columns = COLUMNS): Prisma.Sql => Prisma.sql`
  INSERT INTO "Outcome" (${columns}) ${rows}
  ON CONFLICT ("messageId", "agentId") ${ON_CONFLICT[existing]}`

/**
 * Returns a CTE that writes the outcomes of routing the message in the CTE `message`. The CTEs `runs` and `arrived`
 * insert the runs and the inbox events. If an agent should be woken but neither of them has a row for it, the message
 * has already woken the agent, and the outcome is DUPLICATE.
 */
export function upsertOutcomesSql(verdicts: Verdict[]): Prisma.Sql {
  const isRepeated = Prisma.sql`(v.kind = 'RUN' AND runs.id IS NULL OR v.kind = 'INBOX' AND arrived.id IS NULL)`
  const rows = Prisma.sql`
    SELECT message.id, v."agentId", (CASE WHEN ${isRepeated} THEN 'DUPLICATE' ELSE v.kind END)::"OutcomeKind",
      CASE WHEN ${isRepeated} THEN ${DUPLICATE} ELSE v.reason END, NULL, coalesce(v."runId", runs.id)
    FROM message CROSS JOIN jsonb_to_recordset(${jsonbText(verdicts)}::jsonb) AS v("agentId" text, kind text, reason text, "runId" text)
    LEFT JOIN runs ON v.kind = 'RUN' AND runs."agentId" = v."agentId"
    LEFT JOIN arrived ON v.kind = 'INBOX' AND arrived."agentId" = v."agentId"`
  return upsertSql(rows, 'overwriteIfItSaysMore')
}

const timeSql = (field: 'readingSince' | 'readAt') => Prisma.raw(`to_timestamp((cycle->>'${field}')::float8 / 1000)`)

const valuesOf = ({ messageId, agentId, kind, reason, error = null, runId }: OutcomeChange): Prisma.Sql =>
  Prisma.sql`VALUES (${messageId}, ${agentId}, ${kind}::"OutcomeKind", ${reason}, ${error}, ${runId})`

/** The source, for `unpublished`, of the job that publishes the messages whose outcomes `setOutcomes` has changed. */
export const CHANGED_OUTCOMES_SQL = Prisma.sql`
  SELECT DISTINCT "messageId" AS id, "messageId" FROM changed WHERE "spaceId" IS NOT NULL`

/**
 * Overwrites outcomes. If there are several changes to one outcome, the last one applies.
 * @param job a job created with CHANGED_OUTCOMES_SQL, which the statement enqueues; null for no job
 * @returns the messages that still exist, with their spaces
 */
export async function setOutcomes(
  tx: Tx,
  changes: readonly OutcomeChange[],
  job: Unpublished | null = null,
): Promise<{ messageId: string; spaceId: string }[]> {
  if (changes.length === 0) return []
  const last = new Map(changes.map((change) => [`${change.messageId} ${change.agentId}`, change]))
  const rows = Prisma.sql`
    SELECT "messageId", "agentId", kind::"OutcomeKind", reason, error, "runId",
      ARRAY(SELECT jsonb_array_elements_text(coalesce(cycle->'label', '[]'))), ${timeSql('readingSince')}, ${timeSql('readAt')}
    FROM jsonb_to_recordset(${jsonbText([...last.values()])}::jsonb)
      AS c("messageId" text, "agentId" text, kind text, reason text, error text, "runId" text, cycle jsonb)`
  const publication = job === null ? Prisma.empty : Prisma.sql`, publication AS (${job.enqueueSql})`
  const set = await tx.$queryRaw<{ messageId: string; spaceId: string | null }[]>`
    WITH changed AS (
      ${upsertSql(rows, 'overwrite', COLUMNS_OF_CYCLE)}
      RETURNING "messageId", (SELECT "spaceId" FROM "Message" WHERE id = "messageId") AS "spaceId"
    )${publication} SELECT "messageId", "spaceId" FROM changed`
  return set.flatMap(({ messageId, spaceId }) => (spaceId === null ? [] : [{ messageId, spaceId }]))
}

/**
 * Records the outcome ANSWERED for a message whose first part answers a wait before the message is routed. If the
 * message was already routed before the wait began, keeps its outcome.
 * @returns whether the outcome is new
 */
export async function markAnswered(
  tx: Tx,
  { agentId, runId, messageId }: { agentId: string; runId: string; messageId: string },
): Promise<boolean> {
  const values = valuesOf({ messageId, agentId, kind: 'ANSWERED', reason: ANSWERED, runId })
  return (await tx.$executeRaw(upsertSql(values, 'keep'))) > 0
}

/**
 * Changes the outcome of a reply from RUN to ANSWERED. The reply had started a run of the agent, because the wait of
 * the run `runId` had not been recorded yet.
 * @returns the id of the started run if it is active and has posted nothing; null if nothing was changed
 */
export async function markAnsweredAfterWaking(
  tx: Tx,
  { agentId, runId, messageId }: { agentId: string; runId: string; messageId: string },
): Promise<string | null> {
  const [woken] = await tx.$queryRaw<{ id: string }[]>`
    UPDATE "Outcome" o SET kind = 'ANSWERED', reason = ${ANSWERED}, "runId" = ${runId}
    FROM "Run" r WHERE o."messageId" = ${messageId} AND o."agentId" = ${agentId} AND o.kind = 'RUN' AND r.id = o."runId"
      AND r.id <> ${runId} AND r.status IN ${ACTIVE_RUNS_SQL}
      AND NOT EXISTS (SELECT 1 FROM "RunSpace" s WHERE s."runId" = r.id)
    RETURNING r.id`
  return woken?.id ?? null
}

/** Links the outcomes of messages in an agent's inbox to the run of the think cycle that reads the messages. */
export async function linkCycle(tx: Tx, agentId: string, messageIds: string[], runId: string): Promise<void> {
  if (messageIds.length === 0) return
  await tx.outcome.updateMany({
    where: { messageId: { in: messageIds }, agentId, kind: { in: ['INBOX', 'OVER_BUDGET'] } },
    data: { kind: 'INBOX', runId },
  })
}

/** Sets the outcomes of messages that wait because a budget is exhausted to OVER_BUDGET. */
export async function markOverBudget(tx: Tx, agentId: string, messageIds: string[], reason: string): Promise<void> {
  await tx.outcome.updateMany({
    where: { messageId: { in: messageIds }, agentId },
    data: { kind: 'OVER_BUDGET', reason, error: null, runId: null },
  })
}

/** Returns a CTE that deletes the outcomes of deleted messages. */
export const deleteOutcomesSql = (messageIds: Prisma.Sql): Prisma.Sql => Prisma.sql`
  DELETE FROM "Outcome" WHERE "messageId" IN (${messageIds})`
