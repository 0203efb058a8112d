import { Prisma, type Session } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

/** Writes of the table `Session`. */

export async function insertSession(tx: Tx, session: Session): Promise<void> {
  await tx.session.create({ data: session })
}

/** Deletes sessions. Returns their ids, whose end the caller publishes after the commit. */
export async function deleteSessions(tx: Tx, where: Prisma.SessionWhereInput): Promise<string[]> {
  const ended = await tx.session.findMany({ where, select: { id: true } })
  if (ended.length === 0) return []
  const ids = ended.map(({ id }) => id)
  await tx.session.deleteMany({ where: { id: { in: ids } } })
  return ids
}

/** The times of a use. */
export interface SessionUse {
  now: Date
  /** See `isOpenSql`. */
  operatorKey: string
  /** A use is recorded only if the last one was recorded before this time. */
  notedBefore: Date
  /** The new end, for sessions with the scope ADMIN and for all others. */
  adminUntil: Date
  until: Date
}

/**
 * Condition on a session `s`: it has not ended, its token was not revoked, and its human exists. `operatorKey` is the
 * `tokenId` of sessions of the present admin token.
 */
const isOpenSql = (now: Date, operatorKey: string) => Prisma.sql`s."expiresAt" > ${now}
  AND (s."tokenId" IS NULL OR s."tokenId" = ${operatorKey} OR EXISTS (
    SELECT 1 FROM "AccessToken" t WHERE t.id = s."tokenId" AND t."revokedAt" IS NULL))
  AND (s.scope <> 'HUMAN' OR EXISTS (SELECT 1 FROM "Entity" e WHERE e.id = s."viewerId" AND e."goneAt" IS NULL))`

/** Selects the ids of the sessions that have not ended. */
export const selectOpenSessionsSql = (
  ids: readonly string[],
  { now, operatorKey }: { now: Date; operatorKey: string },
) => Prisma.sql`SELECT s.id FROM "Session" s WHERE s.id = ANY(${[...ids]}::text[]) AND ${isOpenSql(now, operatorKey)}`

/**
 * Selects the session with a hash, unless it has ended, and records its use. `renewedUntil`: the new end, if the use
 * was recorded.
 */
export const useSessionSql = (
  hash: string,
  { now, operatorKey, notedBefore, adminUntil, until }: SessionUse,
) => Prisma.sql`
  WITH found AS (
    SELECT s.* FROM "Session" s WHERE s.hash = ${hash} AND ${isOpenSql(now, operatorKey)}
  ), renewed AS (
    UPDATE "Session" s SET "lastUsedAt" = ${now},
      "expiresAt" = least(s."endsBy", CASE s.scope WHEN 'ADMIN' THEN ${adminUntil}::timestamptz ELSE ${until}::timestamptz END)
    FROM found WHERE s.id = found.id AND found."lastUsedAt" < ${notedBefore}
    RETURNING s."expiresAt"
  )
  SELECT found.*, (SELECT "expiresAt" FROM renewed) AS "renewedUntil" FROM found`
