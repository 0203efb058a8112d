import type { Identity } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

/** The statements that write the tables `Identity` and `UsedLogoutToken`. */

/**
 * Stores the account of a human, or replaces its row.
 * @throws a unique violation if another sign-in has stored the account since this transaction read it
 */
export async function saveIdentity(tx: Tx, identity: Identity, { isNew }: { isNew: boolean }): Promise<void> {
  const { issuer, subject, ...data } = identity
  if (isNew) await tx.identity.create({ data: identity })
  else await tx.identity.update({ where: { issuer_subject: { issuer, subject } }, data })
}

/** Removes the accounts of a human. */
export async function deleteIdentities(tx: Tx, humanId: string): Promise<void> {
  await tx.identity.deleteMany({ where: { humanId } })
}

/** How many expired tokens a logout deletes. */
const MOST_EXPIRED_AT_ONCE = 500

/** Marks a logout token as used, and deletes some that have expired. Returns false if it was used before. */
export async function useLogoutToken(tx: Tx, token: { hash: string; expiresAt: Date }, now: Date): Promise<boolean> {
  await tx.$executeRaw`
    DELETE FROM "UsedLogoutToken" WHERE hash IN (
      SELECT hash FROM "UsedLogoutToken" WHERE "expiresAt" <= ${now} ORDER BY "expiresAt" LIMIT ${MOST_EXPIRED_AT_ONCE}
      FOR UPDATE SKIP LOCKED)`
  const inserted = await tx.$executeRaw`
    INSERT INTO "UsedLogoutToken" (hash, "expiresAt") VALUES (${token.hash}, ${token.expiresAt}) ON CONFLICT DO NOTHING`
  return inserted === 1
}
