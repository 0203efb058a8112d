import { isHeardBy } from '../confidentiality/world.ts'
import { type Decision, Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import {
  type CountedDecision,
  type DecidableCall,
  type EarlierDecisions,
  MOST_DECISIONS,
  type PendingFacts,
} from '../rules/approvals.ts'
import { unpublished } from './change-store.ts'

// Writes the table "Decision", and reads who may decide on a call.

/** Subquery: the ids of the humans who are asked to approve the call `c`. */
const APPROVERS_SQL = Prisma.sql`
  SELECT h.id FROM (
    SELECT unnest(c."approverIds") AS id
    UNION SELECT unnest(c."escalateToIds") WHERE c."escalatedAt" IS NOT NULL
    UNION SELECT m."entityId" FROM "Membership" m WHERE m."spaceId" = c."spaceId" AND cardinality(c."approverIds") = 0
  ) asked JOIN "Entity" h ON h.id = asked.id AND h.kind = 'HUMAN' AND h."goneAt" IS NULL`

/** Subquery: the approvers who may decide. Excludes approvers who may not read a confidential source of the call. */
const DECIDERS_SQL = Prisma.sql`
  SELECT h.id FROM (${APPROVERS_SQL}) h WHERE ${isHeardBy(Prisma.sql`h.id`, Prisma.sql`c.places || c.label`)}`

/** Returns the humans who may decide on a call, even after it was decided. */
export async function readDeciders(tx: Tx, toolCallId: string): Promise<string[]> {
  const rows = await tx.$queryRaw<{ id: string }[]>`
    SELECT d.id FROM "ToolCall" c CROSS JOIN LATERAL (${DECIDERS_SQL}) d WHERE c.id = ${toolCallId}`
  return rows.map(({ id }) => id)
}

/** Returns the humans who may decide on each of the calls. */
export function readDecidersOfCalls(tx: Tx, toolCallIds: string[]): Promise<{ callId: string; id: string }[]> {
  return tx.$queryRaw<{ callId: string; id: string }[]>`
    SELECT c.id AS "callId", d.id FROM "ToolCall" c CROSS JOIN LATERAL (${DECIDERS_SQL}) d
    WHERE c.id = ANY(${toolCallIds}::text[]) ORDER BY d.id`
}

/**
 * Returns the humans who may decide on each of the calls and have not yet decided on the current input. Omits calls
 * that no longer wait for a decision.
 */
export function readUndecided(
  tx: Tx,
  toolCallIds: readonly string[],
): Promise<{ toolCallId: string; humanId: string }[]> {
  return tx.$queryRaw<{ toolCallId: string; humanId: string }[]>`
    SELECT c.id AS "toolCallId", d.id AS "humanId" FROM "ToolCall" c CROSS JOIN LATERAL (${DECIDERS_SQL}) d
    WHERE c.id = ANY(${[...toolCallIds]}::text[]) AND c."approvalState" = 'PENDING' AND coalesce(c."expiresAt" > now(), true)
      AND NOT EXISTS (
        SELECT 1 FROM "Decision" said WHERE said."toolCallId" = c.id AND said."humanId" = d.id
          AND said."inputDigest" = c."inputDigest" AND said.counted IS NULL)
    ORDER BY 1, 2`
}

/** Returns the latest decisions on calls, oldest first. */
export function readDecisionsOfCalls(tx: Tx, toolCallIds: string[]): Promise<Decision[]> {
  return tx.$queryRaw<Decision[]>`
    SELECT d.* FROM unnest(${toolCallIds}::text[]) AS c(id) CROSS JOIN LATERAL (
      SELECT * FROM "Decision" WHERE "toolCallId" = c.id ORDER BY at DESC, "humanId" DESC LIMIT ${MOST_DECISIONS}
    ) d ORDER BY d.at, d."humanId"`
}

/**
 * Returns whether a decision on a call is still possible, and whether this human may decide. Returns null if there is
 * no such call.
 */
export async function readDecidable(
  tx: Tx,
  toolCallId: string,
  humanId: string,
): Promise<(DecidableCall & { mayDecide: boolean }) | null> {
  const [row] = await tx.$queryRaw<(DecidableCall & { mayDecide: boolean })[]>`
    SELECT c.status::text AS status, c."approvalState"::text AS "approvalState", coalesce(c."expiresAt" <= now(), false) AS "isLate",
      ${humanId} IN (${DECIDERS_SQL}) AS "mayDecide" FROM "ToolCall" c WHERE c.id = ${toolCallId}`
  return row ?? null
}

export async function readEarlierDecisions(
  tx: Tx,
  { toolCallId, humanId, inputDigest }: DecisionKey,
): Promise<EarlierDecisions> {
  const [row] = await tx.$queryRaw<EarlierDecisions[]>`
    SELECT count(*)::int AS count,
      coalesce(bool_or("humanId" = ${humanId} AND "inputDigest" = ${inputDigest} AND counted IS NULL), false) AS "hasDecided"
    FROM "Decision" WHERE "toolCallId" = ${toolCallId}`
  return row ?? { count: 0, hasDecided: false }
}

/** Counts the people who may decide and have approved this input. */
export function countApprovals(
  tx: Tx,
  { toolCallId, inputDigest }: Omit<DecisionKey, 'humanId'>,
  deciderIds: string[],
): Promise<number> {
  return tx.decision.count({
    where: { toolCallId, inputDigest, approve: true, humanId: { in: deciderIds }, counted: null },
  })
}

/** Returns the names of the people who approved this input, in the order of their decisions. */
export async function readApproverNames(
  tx: Tx,
  { toolCallId, inputDigest }: { toolCallId: string; inputDigest: string | null },
): Promise<string[]> {
  const rows = await tx.$queryRaw<{ name: string }[]>`
    SELECT h.name FROM "Decision" d JOIN "Entity" h ON h.id = d."humanId"
    WHERE d."toolCallId" = ${toolCallId} AND d."inputDigest" = ${inputDigest} AND d.approve ORDER BY d.at`
  return rows.map(({ name }) => name)
}

/** Returns the decisions that counted when the calls were approved or denied. */
export function readCountedDecisions(
  tx: Tx,
  toolCallIds: string[],
): Promise<(CountedDecision & { toolCallId: string })[]> {
  return tx.$queryRaw<(CountedDecision & { toolCallId: string })[]>`
    SELECT d."toolCallId", h.name, d.approve, d.reason FROM "Decision" d JOIN "Entity" h ON h.id = d."humanId"
    WHERE d."toolCallId" = ANY(${toolCallIds}::text[]) AND d.counted ORDER BY d.at, d."humanId"`
}

/** Selects pending calls. An empty selection means all pending calls. */
export interface PendingCalls {
  toolCallId?: string
  /** Selects calls that a change in this space's members can affect. */
  spaceId?: string
}

/** SQL condition on a row `said` of "Decision": the human `d` approves the current input of the call `c`. */
const AGREES_SQL = Prisma.sql`said."toolCallId" = c.id AND said."humanId" = d.id AND said.approve
  AND said."inputDigest" = c."inputDigest" AND said.counted IS NULL`

/** Returns pending calls that no longer need to wait (see `nextOf` of rules/approvals.ts), at most 500. */
export function readDecidedCalls(tx: Tx, among: PendingCalls): Promise<(PendingFacts & { id: string })[]> {
  const { toolCallId = null, spaceId = null } = among
  return tx.$queryRaw<(PendingFacts & { id: string })[]>`
    SELECT * FROM (
      SELECT c.id, c."escalatesAt", (c.approval->>'quorum')::int AS quorum, d.*, (SELECT count(*)::int FROM (${APPROVERS_SQL}) a) AS asked,
        (c."spaceId" IS NOT NULL AND NOT EXISTS (
          SELECT 1 FROM "Membership" m WHERE m."spaceId" = c."spaceId" AND m."entityId" = c."agentId")) AS "hasLeft"
      FROM "ToolCall" c CROSS JOIN LATERAL (
        SELECT count(*)::int AS count, (count(*) FILTER (WHERE EXISTS (SELECT 1 FROM "Decision" said WHERE ${AGREES_SQL})))::int AS agreed
        FROM (${DECIDERS_SQL}) d
      ) d
      WHERE c."approvalState" = 'PENDING' AND c."expiresAt" > now() AND (${toolCallId}::text IS NULL OR c.id = ${toolCallId})
        AND (${spaceId}::text IS NULL OR c."spaceId" = ${spaceId} OR ${spaceId} = ANY(c.places || c.label))
    ) pending WHERE count < quorum OR agreed >= quorum OR "hasLeft" ORDER BY id LIMIT 500`
}

/** The key of a decision. */
export interface DecisionKey {
  toolCallId: string
  humanId: string
  inputDigest: string
}

/** Records a decision. Replaces an earlier decision of the same human on the same input. */
export async function recordDecision(
  tx: Tx,
  { toolCallId, humanId, inputDigest }: DecisionKey,
  { approve, reason }: { approve: boolean; reason: string | null },
): Promise<{ change: string }> {
  const { change, enqueueSql } = unpublished(
    'call',
    Prisma.sql`SELECT ${toolCallId}::text AS id, ${toolCallId}::text AS "toolCallId"`,
  )
  await tx.$executeRaw`
    WITH publication AS (${enqueueSql})
    INSERT INTO "Decision" ("toolCallId", "humanId", "inputDigest", approve, reason, at)
    VALUES (${toolCallId}, ${humanId}, ${inputDigest}, ${approve}, ${reason}, now())
    ON CONFLICT ("toolCallId", "humanId", "inputDigest") DO UPDATE
      SET approve = excluded.approve, reason = excluded.reason, at = excluded.at, counted = NULL`
  return { change }
}

/** Invalidates all decisions on a call. The decisions stay invalid even if a later edit restores the input. */
export async function invalidateDecisions(tx: Tx, toolCallId: string): Promise<void> {
  await tx.decision.updateMany({ where: { toolCallId }, data: { counted: false } })
}

/**
 * Records which decisions counted when a call was approved or denied, so that later changes of membership do not
 * affect this. The caller passes `deciderIds`, because one of the deciders may be leaving the space at the same time.
 */
export async function closeDecisions(
  tx: Tx,
  { id, inputDigest }: { id: string; inputDigest: string | null },
  deciderIds: string[],
): Promise<void> {
  await tx.$executeRaw`
    UPDATE "Decision" SET counted = (counted IS NULL AND "inputDigest" = ${inputDigest} AND "humanId" = ANY(${deciderIds}::text[])) WHERE "toolCallId" = ${id}`
}

/** Deletes the reasons that an erased human gave for decisions on a call. */
export async function clearReasons(tx: Tx, { toolCallId, humanId }: Omit<DecisionKey, 'inputDigest'>): Promise<void> {
  await tx.decision.updateMany({ where: { humanId, toolCallId }, data: { reason: null } })
}
