import type { MailInvitation } from '../generated/prisma/client.ts'
import { emailKeyOf } from '../lib/email.ts'
import type { Tx } from '../platform/db.ts'

// Contains the statements that write the table "MailInvitation".

const MOST_DELETED_AT_ONCE = 200

/** Creates an invitation, and deletes some expired ones. */
export async function insertMailInvitation(tx: Tx, invitation: MailInvitation): Promise<void> {
  await tx.$executeRaw`
    DELETE FROM "MailInvitation" WHERE id IN (
      SELECT id FROM "MailInvitation" WHERE "expiresAt" <= ${invitation.createdAt} ORDER BY "expiresAt" LIMIT ${MOST_DELETED_AT_ONCE} FOR UPDATE SKIP LOCKED)`
  await tx.mailInvitation.create({ data: invitation })
}

/** Reads an invitation that has not expired. */
export async function findMailInvitation(tx: Tx, id: string | null, now: Date): Promise<MailInvitation | null> {
  if (id === null) return null
  return tx.mailInvitation.findFirst({ where: { id, expiresAt: { gt: now } } })
}

/** Reads the newest invitation that was sent to an address and has not expired. */
export async function findInvitationOf(tx: Tx, email: string, now: Date): Promise<MailInvitation | null> {
  const [found] = await tx.$queryRaw<MailInvitation[]>`
    SELECT * FROM "MailInvitation" WHERE lower(email) = ${emailKeyOf(email)} AND "expiresAt" > ${now} ORDER BY id DESC LIMIT 1`
  return found ?? null
}

/** Deletes an invitation. Returns false if another request has already deleted it. */
export async function deleteMailInvitation(tx: Tx, id: string): Promise<boolean> {
  return (await tx.mailInvitation.deleteMany({ where: { id } })).count > 0
}

/** Deletes the invitations to a human's address that contain no space, because they only serve to sign in. */
export async function deleteSignInInvitations(tx: Tx, humanId: string): Promise<void> {
  await tx.$executeRaw`
    DELETE FROM "MailInvitation" m USING "Entity" e
    WHERE e.id = ${humanId} AND lower(m.email) = lower(e.email) AND cardinality(m."spaceIds") = 0`
}

/** Deletes the invitations that a human has created or received. */
export async function deleteInvitationsOf(tx: Tx, { id, email }: { id: string; email: string | null }): Promise<void> {
  await tx.$executeRaw`
    DELETE FROM "MailInvitation" WHERE "inviterId" = ${id} OR lower(email) = ${email === null ? '' : emailKeyOf(email)}`
}
