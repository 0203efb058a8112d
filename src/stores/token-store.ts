import type { AccessToken, Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

// Contains the statements that write the tables "AccessToken" and "Invitation".

const OMIT_HASH = { hash: true } as const

export async function insertToken(tx: Tx, token: Prisma.AccessTokenCreateInput): Promise<Omit<AccessToken, 'hash'>> {
  return tx.accessToken.create({ data: token, omit: OMIT_HASH })
}

/** Records when a token was last used. */
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
 * Revokes the tokens that an admin has created in this role. These are tokens for admins and tokens for other people,
 * because those people may be admins.
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
 * Deletes the invitation whose code has this hash. Also deletes all other invitations of the same human, so that no
 * other link can sign the human in. Returns the id of the human, or null if the invitation does not exist or has
 * expired.
 */
export async function redeemInvitation(tx: Tx, hash: string, now: Date): Promise<string | null> {
  // Locks the rows in the order of their ids, so that concurrent requests with two invitations of one human do not
  // deadlock.
  const [found] = await tx.$queryRaw<{ humanId: string }[]>`
    WITH of_human AS (
      SELECT hash FROM "Invitation"
      WHERE "humanId" = (SELECT "humanId" FROM "Invitation" WHERE hash = ${hash} AND "expiresAt" > ${now})
      ORDER BY id FOR UPDATE)
    DELETE FROM "Invitation" WHERE hash IN (SELECT hash FROM of_human) AND ${hash} IN (SELECT hash FROM of_human)
    RETURNING "humanId"`
  return found?.humanId ?? null
}
