import { type JoinLink, Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

// Contains the statements that write the table "JoinLink".

export async function insertJoinLink(tx: Tx, link: JoinLink): Promise<void> {
  await tx.joinLink.create({ data: link })
}

/** Deletes links. Returns the number of deleted links. */
export async function deleteJoinLinks(tx: Tx, where: Prisma.JoinLinkWhereInput): Promise<number> {
  return (await tx.joinLink.deleteMany({ where })).count
}

/** Counts one use of a link. Returns false if the link was revoked, has expired, or is used up. */
export async function useJoinLink(tx: Tx, id: string, now: Date): Promise<boolean> {
  const count = await tx.$executeRaw`
    UPDATE "JoinLink" SET uses = uses + 1
    WHERE id = ${id} AND "expiresAt" > ${now} AND ("maxUses" IS NULL OR uses < "maxUses")`
  return count > 0
}

/** Selects the links that can still be used to join a space, newest first. */
export const selectJoinLinksSql = (spaceIds: readonly string[], now: Date): Prisma.Sql => Prisma.sql`
  SELECT * FROM "JoinLink" WHERE "spaceId" = ANY(${[...spaceIds]}::text[]) AND "expiresAt" > ${now}
    AND ("maxUses" IS NULL OR uses < "maxUses") ORDER BY id DESC`
