import type { AccessToken, Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

// The statements that write "AccessToken" and "Invitation".

const OMIT_HASH = { hash: true } as const

export async function insertToken(tx: Tx, token: Prisma.AccessTokenCreateInput): Promise<Omit<AccessToken, 'hash'>> {
  return tx.accessToken.create({ data: token, omit: OMIT_HASH })
}

/** Stores when a token was used. */
export async function saveTokenUse(tx: Pick<Tx, 'accessToken'>, id: string, lastUsedAt: Date): Promise<void> {
  await tx.accessToken.updateMany({ where: { id }, data: { lastUsedAt } })
}

/** Revokes a token unless it is already revoked. */
export async function revokeToken(tx: Tx, id: string, revokedAt: Date): Promise<void> {
  await tx.accessToken.updateMany({ where: { id, revokedAt: null }, data: { revokedAt } })
}

/** Revokes the tokens of a human. Returns their ids. */
export async function revokeTokensOf(tx: Tx, humanId: string, revokedAt: Date): Promise<string[]> {
  const where = { humanId, revokedAt: null }
  const tokens = await tx.accessToken.updateManyAndReturn({ where, data: { revokedAt }, select: { id: true } })
  return tokens.map(({ id }) => id)
}

/**
 * Revokes the tokens that an admin has created with that role: tokens for admins, and tokens for other people, who
 * may be admins.
 */
export async function revokeAdminTokensOf(tx: Tx, createdById: string): Promise<string[]> {
  const revoked = await tx.$queryRaw<{ id: string }[]>`
    UPDATE "AccessToken" SET "revokedAt" = now()
    WHERE "createdById" = ${createdById} AND "revokedAt" IS NULL
      AND (scope = 'ADMIN' OR (scope = 'HUMAN' AND "humanId" <> ${createdById})) RETURNING id`
  return revoked.map(({ id }) => id)
}

export async function insertInvitation(tx: Tx, invitation: Prisma.InvitationUncheckedCreateInput): Promise<void> {
  await tx.invitation.create({ data: invitation })
}

/** Deletes invitations. Returns the number of deleted invitations. */
export async function deleteInvitations(tx: Tx, where: Prisma.InvitationWhereInput): Promise<number> {
  return (await tx.invitation.deleteMany({ where })).count
}

/**
 * Deletes the invitation with the hash of a code, and all other invitations of its human, so that no further link signs
 * the human in. Returns the id of the human; null if the invitation does not exist or has expired.
 */
export async function redeemInvitation(tx: Tx, hash: string, now: Date): Promise<string | null> {
  // The rows are locked in the order of their ids, so that two invitations of one human can be redeemed concurrently.
  const [found] = await tx.$queryRaw<{ humanId: string }[]>`
    WITH of_human AS (
      SELECT hash FROM "Invitation"
      WHERE "humanId" = (SELECT "humanId" FROM "Invitation" WHERE hash = ${hash} AND "expiresAt" > ${now})
      ORDER BY id FOR UPDATE)
    DELETE FROM "Invitation" WHERE hash IN (SELECT hash FROM of_human) AND ${hash} IN (SELECT hash FROM of_human)
    RETURNING "humanId"`
  return found?.humanId ?? null
}
