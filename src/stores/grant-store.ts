import { isHeardBy } from '../confidentiality/world.ts'
import { type GrantDecision, Prisma } from '../generated/prisma/client.ts'
import { jsonbText } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { AskedApproval } from '../rules/approvals.ts'
import type { GrantBounds, ReadGrant } from '../rules/standing-grants.ts'

// Writes the tables "StandingGrant" and "GrantDecision", and reads who may decide on a grant. Only `useGrantSql`
// counts calls.

const COLUMNS_SQL = Prisma.sql`g.*, g."expiresAt" <= clock_timestamp() AS "isLate"`

/** SQL condition: the grant has not ended. */
const IS_LIVE_SQL = Prisma.sql`g."deniedAt" IS NULL AND g."revokedAt" IS NULL AND g."toolChangedAt" IS NULL
  AND g."expiresAt" > clock_timestamp()`

/**
 * Subquery: the ids of the humans who can approve the grant `g`. They are the approvers named in the policy or, if it
 * names none, the members of the space.
 */
const DECIDERS_SQL = Prisma.sql`
  SELECT h.id FROM (
    SELECT unnest(g."approverIds") AS id
    UNION SELECT m."entityId" FROM "Membership" m WHERE m."spaceId" = g."spaceId" AND cardinality(g."approverIds") = 0
  ) asked JOIN "Entity" h ON h.id = asked.id AND h.kind = 'HUMAN' AND h."goneAt" IS NULL
  WHERE ${isHeardBy(Prisma.sql`h.id`, Prisma.sql`g.places || g.label`)}`

/** SQL condition: a human may see the grant, as a member of its space or as an approver. */
const isSeenBySql = (humanId: string) => Prisma.sql`(
  EXISTS (SELECT 1 FROM "Membership" m WHERE m."spaceId" = g."spaceId" AND m."entityId" = ${humanId})
  OR ${humanId} IN (${DECIDERS_SQL}))`

export interface NewGrant extends GrantBounds {
  id: string
  agentId: string
  toolName: string
  toolDigest: string
  spaceId: string | null
  quorum: number
  approverIds: string[]
  proposedById: string
  places: string[]
  label: string[]
}

export async function insertGrant(tx: Tx, { expiresInSeconds, inputSchema, ...grant }: NewGrant): Promise<void> {
  await tx.$executeRaw`
    INSERT INTO "StandingGrant" (id, "agentId", "toolName", "toolDigest", "spaceId", quorum, "approverIds", "inputSchema", "maxCalls",
      "amountProperty", "maxAmount", "proposedById", places, label, "expiresAt")
    VALUES (${grant.id}, ${grant.agentId}, ${grant.toolName}, ${grant.toolDigest}, ${grant.spaceId}, ${grant.quorum},
      ${grant.approverIds}::text[], ${inputSchema === null ? null : jsonbText(inputSchema)}::jsonb, ${grant.maxCalls},
      ${grant.amountProperty}, ${grant.maxAmount}::float8, ${grant.proposedById}, ${grant.places}::text[], ${grant.label}::text[],
      clock_timestamp() + ${expiresInSeconds}::int * interval '1 second')`
}

/**
 * The calls to which a grant can apply: the calls of one tool in one space or, if `spaceId` is null, outside of
 * spaces.
 */
export interface GrantPlace {
  agentId: string
  toolName: string
  spaceId: string | null
}

const isAtSql = ({ agentId, toolName, spaceId }: GrantPlace) => Prisma.sql`
  g."agentId" = ${agentId} AND g."toolName" = ${toolName} AND g."spaceId" IS NOT DISTINCT FROM ${spaceId}`

/** Counts the grants for these calls that have not ended. */
export async function countLiveGrants(tx: Tx, place: GrantPlace): Promise<number> {
  const [row] = await tx.$queryRaw<{ count: number }[]>`
    SELECT count(*)::int AS count FROM "StandingGrant" g WHERE ${isAtSql(place)} AND ${IS_LIVE_SQL}`
  return row?.count ?? 0
}

/** Returns the active grants that can cover a call of this version of the tool, oldest first. */
export function readActiveGrants(tx: Tx, place: GrantPlace, toolDigest: string): Promise<ReadGrant[]> {
  return tx.$queryRaw<ReadGrant[]>`
    SELECT ${COLUMNS_SQL} FROM "StandingGrant" g
    WHERE ${isAtSql(place)} AND g."toolDigest" = ${toolDigest} AND g."activeSince" IS NOT NULL AND ${IS_LIVE_SQL}
      AND (g."maxCalls" IS NULL OR g."usedCalls" < g."maxCalls") ORDER BY g.id`
}

/** A call that a grant might cover. */
export interface CoveredCall {
  /** The amount that counts towards the grant's maximum amount. */
  amount: number
  /** The confidential spaces from which the call's content may come. */
  marks: readonly string[]
  /** The approval that the call needs if no grant covers it. */
  approval: Pick<AskedApproval, 'quorum' | 'approverIds'>
}

/**
 * Returns a CTE for a fenced write (runs/hold.ts). The CTE counts a call towards a grant if the grant still covers
 * the call once the grant's row is locked. Enough of the people who approved the grant must also be allowed to decide
 * on this call. Amounts are added as decimals, so that ten times 0.1 is 1. The CTE returns the id of the grant.
 */
export function useGrantSql(
  grantId: string,
  { amount, marks, approval: { quorum, approverIds } }: CoveredCall,
): Prisma.Sql {
  const sum = Prisma.sql`g."usedAmount"::numeric + ${String(amount)}::numeric`
  const mayDecide =
    approverIds.length > 0
      ? Prisma.sql`d."humanId" = ANY(${[...approverIds]}::text[])`
      : Prisma.sql`EXISTS (SELECT 1 FROM "Membership" m WHERE m."spaceId" = g."spaceId" AND m."entityId" = d."humanId")`
  const agreed = Prisma.sql`(
    SELECT count(*) FROM "GrantDecision" d JOIN "Entity" h ON h.id = d."humanId" AND h."goneAt" IS NULL
    WHERE d."grantId" = g.id AND d.approve AND ${mayDecide} AND ${isHeardBy(Prisma.sql`d."humanId"`, Prisma.sql`${[...marks]}::text[]`)})`
  return Prisma.sql`
    UPDATE "StandingGrant" g SET "usedCalls" = g."usedCalls" + 1, "usedAmount" = (${sum})::float8
    FROM held WHERE g.id = ${grantId} AND g."activeSince" IS NOT NULL AND ${IS_LIVE_SQL}
      AND (g."maxCalls" IS NULL OR g."usedCalls" < g."maxCalls") AND (g."maxAmount" IS NULL OR ${sum} <= g."maxAmount"::numeric)
      AND ${agreed} >= ${quorum} RETURNING g.id`
}

/** Reads a grant and locks its row until the transaction ends. */
export async function lockGrant(tx: Tx, id: string): Promise<ReadGrant | null> {
  const [grant] = await tx.$queryRaw<ReadGrant[]>`
    SELECT ${COLUMNS_SQL} FROM "StandingGrant" g WHERE g.id = ${id} FOR NO KEY UPDATE`
  return grant ?? null
}

export async function recordGrantDecision(
  tx: Tx,
  { grantId, humanId, approve, reason }: Omit<GrantDecision, 'at'>,
): Promise<void> {
  await tx.$executeRaw`
    INSERT INTO "GrantDecision" ("grantId", "humanId", approve, reason, at)
    VALUES (${grantId}, ${humanId}, ${approve}, ${reason}, clock_timestamp())`
}

/** Activates a locked undecided grant if enough of the people who may decide have approved it. */
export async function activateIfApproved(tx: Tx, grantId: string): Promise<void> {
  await tx.$executeRaw`
    UPDATE "StandingGrant" g SET "activeSince" = clock_timestamp() WHERE g.id = ${grantId} AND g."activeSince" IS NULL AND g.quorum <= (
      SELECT count(*) FROM "GrantDecision" d WHERE d."grantId" = g.id AND d.approve AND d."humanId" IN (${DECIDERS_SQL}))`
}

/** Denies a locked undecided grant. */
export async function denyGrant(tx: Tx, grantId: string): Promise<void> {
  await tx.$executeRaw`UPDATE "StandingGrant" SET "deniedAt" = clock_timestamp() WHERE id = ${grantId}`
}

/** Revokes a locked grant that has not ended. `humanId` is null for an admin. */
export async function revokeGrant(tx: Tx, grantId: string, humanId: string | null): Promise<void> {
  await tx.$executeRaw`
    UPDATE "StandingGrant" SET "revokedAt" = clock_timestamp(), "revokedById" = ${humanId} WHERE id = ${grantId}`
}

/**
 * Reactivates grants that an import has revoked, or that ended before their proposal because the tool had another
 * version. A replay can then execute the calls that the grants approved.
 */
export async function restoreGrants(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx.standingGrant.updateMany({
    where: { id: { in: [...ids] } },
    data: { revokedAt: null, revokedById: null, toolChangedAt: null },
  })
}

/**
 * Ends an agent's grants for tools whose current version is not in this list. The grants stay ended even if a tool is
 * later changed back.
 */
export async function endGrantsOfOtherVersions(
  tx: Tx,
  agentId: string,
  current: ReadonlyMap<string, { grantDigest: string | null }>,
): Promise<PublishedGrant[]> {
  const [names, digests] = [[...current.keys()], [...current.values()].map(({ grantDigest }) => grantDigest)]
  return tx.$queryRaw<PublishedGrant[]>`
    UPDATE "StandingGrant" g SET "toolChangedAt" = clock_timestamp()
    WHERE g."agentId" = ${agentId} AND ${IS_LIVE_SQL} AND NOT EXISTS (
      SELECT 1 FROM unnest(${names}::text[], ${digests}::text[]) AS v(name, digest)
      WHERE v.name = g."toolName" AND v.digest = g."toolDigest")
    RETURNING g.id, g."spaceId", g."approverIds"`
}

/** A changed grant, with the fields that determine whom to notify. */
export type PublishedGrant = Pick<ReadGrant, 'id' | 'spaceId' | 'approverIds'>

export async function deleteGrantsOfSpace(tx: Tx, spaceId: string): Promise<void> {
  await tx.standingGrant.deleteMany({ where: { spaceId } })
}

/** Deletes the reasons that an erased human gave for decisions on grants. */
export async function clearGrantReasons(tx: Tx, humanId: string): Promise<void> {
  await tx.grantDecision.updateMany({ where: { humanId, reason: { not: null } }, data: { reason: null } })
}

export function readGrants(tx: Tx, ids: readonly string[]): Promise<ReadGrant[]> {
  return tx.$queryRaw<ReadGrant[]>`SELECT ${COLUMNS_SQL} FROM "StandingGrant" g WHERE g.id = ANY(${[...ids]}::text[])`
}

/** Returns the ids of the grants that a human may see. */
export async function readSeenGrants(tx: Tx, humanId: string, ids: readonly string[]): Promise<string[]> {
  const rows = await tx.$queryRaw<{ id: string }[]>`
    SELECT g.id FROM "StandingGrant" g WHERE g.id = ANY(${[...ids]}::text[]) AND ${isSeenBySql(humanId)}`
  return rows.map(({ id }) => id)
}

/** Selects grants. Absent fields do not restrict the selection. */
export interface GrantFilter {
  agentId?: string
  spaceId?: string
  /** Selects only grants that this human may see. */
  humanId?: string
}

/** Returns up to `most` of the newest grants, newest first. */
export function listGrants(tx: Tx, { agentId, spaceId, humanId }: GrantFilter, most: number): Promise<ReadGrant[]> {
  const conditions = [
    ...(agentId === undefined ? [] : [Prisma.sql`g."agentId" = ${agentId}`]),
    ...(spaceId === undefined ? [] : [Prisma.sql`g."spaceId" = ${spaceId}`]),
    ...(humanId === undefined ? [] : [isSeenBySql(humanId)]),
  ]
  const where = conditions.length === 0 ? Prisma.empty : Prisma.sql`WHERE ${Prisma.join(conditions, ' AND ')}`
  return tx.$queryRaw<ReadGrant[]>`
    SELECT ${COLUMNS_SQL} FROM "StandingGrant" g ${where} ORDER BY g.id DESC LIMIT ${most}`
}

/** Returns up to `most` of the newest grants of each space, newest first. */
export function listGrantsOfSpaces(tx: Tx, spaceIds: readonly string[], most: number): Promise<ReadGrant[]> {
  return tx.$queryRaw<ReadGrant[]>`
    SELECT grants.* FROM unnest(${[...spaceIds]}::text[]) AS s(id) CROSS JOIN LATERAL (
      SELECT ${COLUMNS_SQL} FROM "StandingGrant" g WHERE g."spaceId" = s.id ORDER BY g.id DESC LIMIT ${most}
    ) grants ORDER BY grants.id DESC`
}

/** Returns the humans who may decide on each of the grants. */
export function readGrantDeciders(tx: Tx, ids: readonly string[]): Promise<{ grantId: string; id: string }[]> {
  return tx.$queryRaw<{ grantId: string; id: string }[]>`
    SELECT g.id AS "grantId", d.id FROM "StandingGrant" g CROSS JOIN LATERAL (${DECIDERS_SQL}) d
    WHERE g.id = ANY(${[...ids]}::text[]) ORDER BY d.id`
}

/** Returns the decisions on grants, oldest first. */
export function readGrantDecisions(tx: Tx, ids: readonly string[]): Promise<GrantDecision[]> {
  return tx.grantDecision.findMany({
    where: { grantId: { in: [...ids] } },
    orderBy: [{ at: 'asc' }, { humanId: 'asc' }],
  })
}
