import { Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { NotifyLevel } from '../rules/notices.ts'
import { unpublished } from './change-store.ts'
import { forgetFailedRunsSql } from './notice-store.ts'

// Contains the statements that write the tables "Membership" and "FormerMember", except imports, which write all
// tables generically.

export interface Member {
  spaceId: string
  entityId: string
}

/** SQL condition: the entity is a member of the space. */
export const isMemberSql = ({ spaceId, entityId }: Member): Prisma.Sql =>
  Prisma.sql`EXISTS (SELECT 1 FROM "Membership" WHERE "spaceId" = ${spaceId} AND "entityId" = ${entityId})`

/** Adds members to a space. They have read the messages up to `lastReadSeq` or, if it is absent, none. */
export async function insertMembers(
  tx: Tx,
  members: readonly (Member & { joinedAt: Date; lastReadSeq?: number })[],
): Promise<void> {
  await tx.membership.createMany({ data: [...members] })
}

/**
 * Adds a member to an existing space. Returns the key of the job that publishes the membership if this process dies
 * before it can (change-store.ts).
 */
export async function insertMember(
  tx: Tx,
  { spaceId, entityId, joinedAt, lastReadSeq }: Member & { joinedAt: Date; lastReadSeq: number },
): Promise<{ change: string }> {
  const { change, enqueueSql } = unpublished(
    'member',
    Prisma.sql`SELECT "spaceId" AS id, "spaceId", "entityId" FROM joined`,
  )
  await tx.$executeRaw`
    WITH joined AS (
      INSERT INTO "Membership" ("spaceId", "entityId", "joinedAt", "lastReadSeq")
      VALUES (${spaceId}, ${entityId}, ${joinedAt}, ${lastReadSeq}::int) RETURNING *
    ) ${enqueueSql}`
  return { change }
}

/**
 * Ends a membership. Returns the key of the job that publishes the change if this process dies before it can, or null
 * if there was no such membership.
 */
export async function deleteMember(tx: Tx, { spaceId, entityId }: Member): Promise<{ change: string } | null> {
  const { change, enqueueSql } = unpublished(
    'member',
    Prisma.sql`SELECT "spaceId" AS id, "spaceId", "entityId" FROM gone`,
  )
  const gone = await tx.$queryRaw<unknown[]>`
    WITH gone AS (
      DELETE FROM "Membership" WHERE "spaceId" = ${spaceId} AND "entityId" = ${entityId} RETURNING "spaceId", "entityId"
    ), former AS (
      INSERT INTO "FormerMember" ("spaceId", "entityId") SELECT "spaceId", "entityId" FROM gone ON CONFLICT DO NOTHING
    ), publication AS (${enqueueSql}) SELECT * FROM gone`
  return gone.length === 0 ? null : { change }
}

/**
 * Ends all memberships of an entity. Returns the ids of the spaces in ascending order, and the key of the jobs that
 * publish the change if this process dies before it can (change-store.ts).
 */
export async function deleteMembershipsOf(tx: Tx, entityId: string): Promise<{ spaceIds: string[]; change: string }> {
  const source = Prisma.sql`SELECT "spaceId" AS id, "spaceId", ${entityId}::text AS "entityId" FROM gone`
  const { change, enqueueSql } = unpublished('member', source)
  const rows = await tx.$queryRaw<{ spaceId: string }[]>`
    WITH gone AS (DELETE FROM "Membership" WHERE "entityId" = ${entityId} RETURNING "spaceId"), former AS (
      INSERT INTO "FormerMember" ("spaceId", "entityId") SELECT "spaceId", ${entityId} FROM gone ON CONFLICT DO NOTHING
    ), publication AS (${enqueueSql}) SELECT "spaceId" FROM gone ORDER BY "spaceId"`
  return { spaceIds: rows.map(({ spaceId }) => spaceId), change }
}

/** Removes all members of a deleted space, and the list of its former members. */
export async function deleteMembersIn(tx: Tx, spaceId: string): Promise<void> {
  await tx.membership.deleteMany({ where: { spaceId } })
  await tx.formerMember.deleteMany({ where: { spaceId } })
}

/**
 * Moves a member's read marker forward. Also deletes the member's notices about failed runs in the space, because the
 * member has now seen them. Returns false if the marker was already at this position or later.
 */
export async function moveReadMarker(tx: Tx, { spaceId, entityId }: Member, seq: number): Promise<boolean> {
  const count = await tx.$executeRaw`
    WITH seen AS (${forgetFailedRunsSql(entityId, spaceId)})
    UPDATE "Membership" SET "lastReadSeq" = ${seq}::int
    WHERE "spaceId" = ${spaceId} AND "entityId" = ${entityId} AND "lastReadSeq" < ${seq}::int`
  return count > 0
}

/** Sets the notification level of a member. Returns false if there is no such member. */
export async function setNotifyLevel(tx: Tx, { spaceId, entityId }: Member, level: NotifyLevel): Promise<boolean> {
  const { count } = await tx.membership.updateMany({ where: { spaceId, entityId }, data: { notifyLevel: level } })
  return count > 0
}

/**
 * Records people who appear in a copied space without being its members. They stay visible in the space, and their
 * erasure finds their messages. `memberIds`: the members of the copy.
 */
export async function recordFormerMembers(tx: Tx, spaceId: string, memberIds: readonly string[]): Promise<void> {
  await tx.$executeRaw`
    INSERT INTO "FormerMember" ("spaceId", "entityId")
    SELECT ${spaceId}, named.id FROM (
      SELECT "senderId" AS id FROM "Message" WHERE "spaceId" = ${spaceId}
      UNION SELECT r."entityId" FROM "MessageReaction" r JOIN "Message" m ON m.id = r."messageId" AND m."spaceId" = ${spaceId} AND m."reactionCount" > 0
    ) named JOIN "Entity" e ON e.id = named.id WHERE named.id <> ALL(${[...memberIds]}::text[])`
}
