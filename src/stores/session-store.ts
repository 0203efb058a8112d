import { Prisma, type Session } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import { deletePushSubscriptions } from './push-store.ts'

/** Contains the statements that write the table "Session". */

export async function insertSession(tx: Tx, session: Session): Promise<void> {
  await tx.session.create({ data: session })
}

/**
 * Deletes sessions, the sessions opened from them in which an admin acts as somebody else, and the push subscriptions
 * of their browsers. Returns the ids of all deleted sessions. The caller publishes their end after the commit.
 */
export async function deleteSessions(tx: Tx, where: Prisma.SessionWhereInput): Promise<string[]> {
  const ended = await tx.session.findMany({ where, select: { id: true } })
  if (ended.length === 0) return []
  const opened = await tx.session.findMany({
    where: { tokenId: { in: ended.map(({ id }) => id) } },
    select: { id: true },
  })
  const ids = [...new Set([...ended, ...opened].map(({ id }) => id))]
  await tx.session.deleteMany({ where: { id: { in: ids } } })
  await deletePushSubscriptions(tx, { tokenId: { in: ids } })
  return ids
}

/** Deletes up to `limit` expired sessions. Skips sessions that another transaction is deleting. */
export async function deleteExpiredSessions(tx: Tx, now: Date, limit: number): Promise<void> {
  await tx.$executeRaw`
    DELETE FROM "Session" WHERE id IN (
      SELECT id FROM "Session" WHERE "expiresAt" <= ${now} ORDER BY "expiresAt" LIMIT ${limit} FOR UPDATE SKIP LOCKED)`
}

/** The state that determines, together with its row, whether a session is open. */
export interface OpenSession {
  now: Date
  /** The values of `tokenId` that refer to settings of this server instead of access tokens. */
  settingKeys: readonly string[]
}

/** The times that are needed to record a use of a session. */
export interface SessionUse extends OpenSession {
  /** A use is recorded only if the previously recorded use was before this time. */
  notedBefore: Date
  /** The new expiry of sessions with the scope ADMIN. `until` is the new expiry of all other sessions. */
  adminUntil: Date
  until: Date
}

/**
 * SQL condition on a session `s`: it has not expired, its human exists, and the token, session or setting from which
 * it was opened, if any, is still valid. If an admin acts as the human, the admin must still have the role ADMIN.
 */
const isOpenSql = ({ now, settingKeys }: OpenSession) => Prisma.sql`s."expiresAt" > ${now}
  AND (s."tokenId" IS NULL OR s."tokenId" = ANY(${[...settingKeys]}::text[]) OR EXISTS (
    SELECT 1 FROM "AccessToken" t WHERE t.id = s."tokenId" AND t."revokedAt" IS NULL)
    OR (s.acting AND EXISTS (SELECT 1 FROM "Session" p WHERE p.id = s."tokenId" AND p."expiresAt" > ${now})))
  AND (s."actingAdminId" IS NULL OR EXISTS (
    SELECT 1 FROM "Entity" a WHERE a.id = s."actingAdminId" AND a.role = 'ADMIN' AND a."goneAt" IS NULL))
  AND (s.scope <> 'HUMAN' OR EXISTS (SELECT 1 FROM "Entity" e WHERE e.id = s."viewerId" AND e."goneAt" IS NULL))`

/** Selects the ids of the sessions that have not ended. */
export const selectOpenSessionsSql = (ids: readonly string[], state: OpenSession) =>
  Prisma.sql`SELECT s.id FROM "Session" s WHERE s.id = ANY(${[...ids]}::text[]) AND ${isOpenSql(state)}`

/**
 * Selects the session with a hash and the role of its human, unless the session has ended, and records its use.
 * `expiresAt` is the expiry before this use. `renewedUntil` is the expiry after this use, if the use was recorded.
 * Except for admins, the expiry is moved only if this extends the session by more than a day. The reason is that each
 * new expiry is sent in a cookie, and a late response must not overwrite the cookie of a newer sign-in.
 */
export const useSessionSql = (hash: string, { notedBefore, adminUntil, until, ...state }: SessionUse) => Prisma.sql`
  WITH found AS (
    SELECT s.* FROM "Session" s WHERE s.hash = ${hash} AND ${isOpenSql(state)}
  ), renewed AS (
    UPDATE "Session" s SET "lastUsedAt" = ${state.now}, "expiresAt" = CASE
      WHEN s.scope = 'ADMIN' THEN least(s."endsBy", ${adminUntil}::timestamptz)
      WHEN least(s."endsBy", ${until}::timestamptz) > s."expiresAt" + interval '1 day' THEN least(s."endsBy", ${until}::timestamptz)
      ELSE s."expiresAt" END
    FROM found WHERE s.id = found.id AND found."lastUsedAt" < ${notedBefore}
    RETURNING s."expiresAt"
  )
  SELECT found.*, (SELECT "expiresAt" FROM renewed) AS "renewedUntil",
    coalesce((SELECT e.role::text FROM "Entity" e WHERE e.id = found."viewerId"), 'MEMBER') AS role
  FROM found`
