import { OPERATOR_ID, type Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import type { MailInvitation } from '../generated/prisma/client.ts'
import { DUE_JOBS_CHANNEL, SEND_LINK } from '../jobs/queues.ts'
import { checkEmail } from '../lib/email.ts'
import { ForbiddenError, LimitExceededError, NotFoundError, RateLimitedError } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { INVITATION_LASTS_MS, LIMIT_WINDOW_MS, MOST_INVITATIONS_OF_VIEWER, NO_MAIL } from '../rules/mail-links.ts'
import { isAdmin } from '../rules/permissions.ts'
import { insertMailInvitation } from '../stores/mail-invitation-store.ts'
import { countedAs, countMails, insertMail } from '../stores/mail-store.ts'
import { NO_SUCH_SPACE } from '../stores/space-store.ts'

export interface InviteInput {
  email: string
  /** The spaces of the inviter that the person will join. */
  spaceIds: readonly string[]
}

/** Invites people by email. */
export interface Inviting {
  /** Whether email is set up and the viewer may invite people. */
  mayInvite(viewer: Viewer): boolean
  /**
   * Enqueues an email with an invitation. The response and its timing do not reveal whether the address belongs to
   * somebody, because only a worker looks it up. A person who already has an account signs in with the link and joins
   * the spaces.
   * @throws ForbiddenError if the viewer may not invite people, or if email is not set up; BadInputError,
   * NotFoundError; LimitExceededError above 20 spaces; RateLimitedError above 50 invitations in an hour
   */
  invite(viewer: Viewer, input: InviteInput): Promise<{ id: string; email: string; expiresAt: Date }>
}

const MOST_SPACES = 20

export function createInviting(
  platform: Platform,
  { visibility }: { visibility: Pick<Visibility, 'spaces'> },
): Inviting {
  const { db, clock, jobs, signals, mailer, config } = platform

  const isAllowed = (viewer: Viewer) => isAdmin(viewer) || (viewer.scope === 'HUMAN' && config.invite === 'members')

  return {
    mayInvite: (viewer) => mailer !== null && isAllowed(viewer),
    async invite(viewer, input) {
      if (!isAllowed(viewer))
        throw new ForbiddenError('Only an admin can invite people by email, unless PARLEY_INVITE is set to members.')
      if (mailer === null) throw new ForbiddenError(NO_MAIL)
      const email = checkEmail(input.email, 'input.email')
      const spaceIds = [...new Set(input.spaceIds)]
      if (spaceIds.length > MOST_SPACES)
        throw new LimitExceededError(`An invitation can name at most ${MOST_SPACES} spaces.`)
      const visible = await visibility.spaces(viewer, spaceIds)
      if (spaceIds.some((id) => !visible.has(id))) throw new NotFoundError(NO_SUCH_SPACE)
      const now = clock.now()
      const invitation: MailInvitation = {
        id: newId('inv'),
        email,
        spaceIds,
        inviterId: viewer.id,
        createdAt: new Date(now),
        expiresAt: new Date(now + INVITATION_LASTS_MS),
      }
      await db.transaction(async (tx) => {
        // Checks existence separately, because the visibility check returns even unknown ids for admins.
        const existing = await tx.space.count({ where: { id: { in: spaceIds }, deletedAt: null } })
        if (existing < spaceIds.length) throw new NotFoundError(NO_SUCH_SPACE)
        const counted = countedAs('invited', viewer.id)
        const sent = await countMails(tx, counted, new Date(now - LIMIT_WINDOW_MS))
        if (sent >= MOST_INVITATIONS_OF_VIEWER)
          throw new RateLimitedError(
            `You may invite at most ${MOST_INVITATIONS_OF_VIEWER} people in an hour; wait and try again.`,
            LIMIT_WINDOW_MS,
          )
        await insertMail(tx, `invited:${invitation.id}`, new Date(now), counted)
        await insertMailInvitation(tx, invitation)
        const job = { purpose: 'INVITE' as const, id: newId('inv'), invitationId: invitation.id }
        await jobs.enqueue(tx, SEND_LINK, [{ input: job, key: job.id }])
        // The id becomes the target of the audit entry.
        return { id: invitation.id }
      })
      await signals.publish(DUE_JOBS_CHANNEL, {})
      return { id: invitation.id, email, expiresAt: invitation.expiresAt }
    },
  }
}

/**
 * Returns the spaces of an invitation to which the inviter may currently add people, ordered by id. A human may add
 * people to the spaces of which they are a member. An admin whose token is still valid may add people to all spaces.
 */
export async function addableSpaces(
  tx: Tx,
  { inviterId, spaceIds }: Pick<MailInvitation, 'inviterId' | 'spaceIds'>,
  now: Date,
): Promise<string[]> {
  const rows = await tx.$queryRaw<{ id: string }[]>`
    SELECT s.id FROM "Space" s WHERE s.id = ANY(${spaceIds}::text[]) AND s."deletedAt" IS NULL AND (
      ${inviterId} = ${OPERATOR_ID}
      OR EXISTS (SELECT 1 FROM "AccessToken" t WHERE t.id = ${inviterId} AND t.scope = 'ADMIN' AND t."revokedAt" IS NULL
        AND (t."expiresAt" IS NULL OR t."expiresAt" > ${now}))
      OR EXISTS (SELECT 1 FROM "Entity" e WHERE e.id = ${inviterId} AND e."goneAt" IS NULL AND (e.role = 'ADMIN' OR EXISTS (
        SELECT 1 FROM "Membership" m WHERE m."spaceId" = s.id AND m."entityId" = e.id))))
    ORDER BY s.id`
  return rows.map(({ id }) => id)
}
