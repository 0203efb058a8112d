import { Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { NotifyLevel, Reachability } from '../rules/notices.ts'

// Reads how people want to be notified. A setting that is not stored has its default value.

const PUSH = Prisma.sql`coalesce(n.push, true)`
const HAS_ADDRESS = Prisma.sql`(e.email IS NOT NULL)`
const MAIL = Prisma.sql`coalesce(n.mail, ${HAS_ADDRESS})`
const MINUTES = Prisma.sql`coalesce(n."notifyAfterMinutes", 15)`

export async function readNotificationSettings(
  tx: Tx,
  humanId: string,
): Promise<Pick<Reachability, 'push' | 'mail' | 'notifyAfterMinutes'>> {
  const [row] = await tx.$queryRaw<Pick<Reachability, 'push' | 'mail' | 'notifyAfterMinutes'>[]>`
    SELECT ${PUSH} AS push, ${MAIL} AS mail, ${MINUTES} AS "notifyAfterMinutes"
    FROM "Entity" e LEFT JOIN "NotificationSettings" n ON n."humanId" = e.id WHERE e.id = ${humanId}`
  if (row === undefined) throw new Error(`There is no human ${humanId}.`)
  return row
}

/** A human who may be notified. `spaceId` is the first of the given spaces of which the human is a member. */
export interface Reader extends Omit<Reachability, 'sendsMail'> {
  id: string
  spaceId: string | null
  level: NotifyLevel | null
}

/**
 * Returns the humans with these ids and, if `allIn` is set, all members of that space with the level ALL. Omits
 * erased humans. `spaceIds`: the spaces that show the cause, in order of preference.
 */
export function readReaders(
  tx: Tx,
  { ids, allIn, spaceIds }: { ids: readonly string[]; allIn: string | null; spaceIds: readonly string[] },
): Promise<Reader[]> {
  return tx.$queryRaw<Reader[]>`
    SELECT e.id, m."spaceId", m."notifyLevel"::text AS level, ${PUSH} AS push, ${MAIL} AS mail, ${MINUTES} AS "notifyAfterMinutes",
      ${HAS_ADDRESS} AS "hasAddress",
      ARRAY(SELECT p.id FROM "PushSubscription" p WHERE p."humanId" = e.id ORDER BY p.id) AS "subscriptionIds"
    FROM "Entity" e
    LEFT JOIN "NotificationSettings" n ON n."humanId" = e.id
    LEFT JOIN LATERAL (
      SELECT * FROM "Membership" m WHERE m."entityId" = e.id AND m."spaceId" = ANY(${[...spaceIds]}::text[])
      ORDER BY array_position(${[...spaceIds]}::text[], m."spaceId") LIMIT 1) m ON true
    WHERE e.kind = 'HUMAN' AND e."goneAt" IS NULL AND e.id IN (
      SELECT unnest(${[...ids]}::text[])
      UNION SELECT a."entityId" FROM "Membership" a WHERE a."spaceId" = ${allIn} AND a."notifyLevel" = 'ALL')
    ORDER BY e.id`
}
