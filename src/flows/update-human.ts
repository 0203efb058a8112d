import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { checkExternalId, conflictOf } from '../agents/humans.ts'
import { publishRoleChange } from '../broker/ended-sessions.ts'
import { PRESENCE_SHARING_CHANNEL } from '../broker/topics.ts'
import type { FileReading } from '../files/file-reading.ts'
import { type Entity, type HumanRole, Prisma } from '../generated/prisma/client.ts'
import { DUE_JOBS_CHANNEL, PUBLISH_CHANGE } from '../jobs/queues.ts'
import { type BudgetInput, type BudgetLimits, changedBudget } from '../lib/budget.ts'
import { checkEmail } from '../lib/email.ts'
import { BadInputError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import { checkName } from '../lib/validate.ts'
import { isTimeZone } from '../plans/time-zones.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin } from '../rules/permissions.ts'
import type { Members } from '../spaces/members.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { changeRole, type HumanChanges, lockHuman, updateHuman } from '../stores/human-store.ts'
import { recheckPostponed } from '../stores/inbox-store.ts'
import type { MailLinks } from './mail-links.ts'

/** The changes to a human. Absent fields stay unchanged. */
export interface UpdateHumanInput {
  id: string
  name?: string | null
  /** Null removes the external id. */
  externalId?: string | null
  role?: HumanRole | null
  /** An IANA time zone name. Null removes the time zone. */
  timeZone?: string | null
  /** If false, other people see the human as OFFLINE and never see the human typing. */
  sharePresence?: boolean | null
  /** Null removes the budget. Only admins may set this field. */
  budget?: BudgetInput | null
  /**
   * Null removes the address; only admins may do this. When humans change their own address, the old address stays
   * until they open the link that is sent to the new one.
   */
  email?: string | null
  /** An image that the viewer has uploaded. The server stores a small copy. Null removes the picture. */
  pictureFileId?: string | null
}

/**
 * Changes the data of humans. Publishes a new name in their spaces, and ends the sessions of humans whose role
 * changes.
 */
export interface HumanUpdates {
  /**
   * Updates a human. Admins may change everything. Other people may change only their own name, picture, time zone
   * and sharing of presence. They can also request a new address, which takes effect when they open the link that is
   * sent to it. Makes either all changes or none.
   * @throws ForbiddenError if the viewer may not make the change, or if a human revokes the role ADMIN of the last
   * person who has it; NotFoundError for a human that is not visible; BadInputError; ConflictError if another human
   * has the `externalId` or `email`; RateLimitedError for too many addresses
   */
  update(viewer: Viewer, input: UpdateHumanInput): Promise<Entity>
}

interface UpdateParts {
  mailLinks: Pick<MailLinks, 'requestConfirmation'>
  visibility: Pick<Visibility, 'entities'>
  members: Pick<Members, 'spacesOf'>
  publisher: Pick<SpacePublisher, 'changed'>
  files: Pick<FileReading, 'portraitOf'>
}

export function createHumanUpdates(
  { db, jobs, signals, logger }: Pick<Platform, 'db' | 'jobs' | 'signals' | 'logger'>,
  { mailLinks, visibility, members, publisher, files }: UpdateParts,
): HumanUpdates {
  /**
   * Enqueues an email with a confirmation link to a human's new address.
   * @throws ForbiddenError, RateLimitedError
   */
  async function confirm(tx: Tx, humanId: string, { role }: Pick<Entity, 'role'>, email: string): Promise<void> {
    // Signing in by email with the new address gives the role ADMIN. An access token does not have this role, so it
    // must not change the address.
    if (role === 'ADMIN')
      throw new ForbiddenError(
        'An access token cannot change the email address of an admin: sign in, or ask another admin.',
      )
    await mailLinks.requestConfirmation(tx, humanId, email)
  }

  async function pictureOf(viewer: Viewer, fileId: string | null | undefined): Promise<HumanChanges> {
    if (fileId === undefined) return {}
    return { picture: fileId === null ? null : await files.portraitOf(viewer, fileId) }
  }

  return {
    async update(viewer, input) {
      const { id, role, budget } = input
      const isVisible = prefixOf(id) === 'hum' && (await visibility.entities(viewer, [id])).has(id)
      if (!isVisible) throw new NotFoundError(NO_SUCH_HUMAN)
      checkRights(viewer, input)
      if (role === null) throw new BadInputError('The role of a human must not be null.', 'input.role')
      const { email, ...changes } = { ...changesOf(input), ...(await pictureOf(viewer, input.pictureFileId)) }
      const isShown = changes.name !== undefined || changes.picture !== undefined
      const toConfirm = isAdmin(viewer) ? null : (email ?? null)
      const by = viewer.scope === 'HUMAN' ? viewer.id : null
      const work = async (tx: Tx) => {
        const roleChange = role === undefined ? null : await changeRole(tx, { humanId: id, role, by })
        const before = await lockHuman(tx, id, { isShown })
        if (before === null) throw new NotFoundError(NO_SUCH_HUMAN)
        if (toConfirm !== null) await confirm(tx, id, before, toConfirm)
        const human = await updateHuman(tx, id, {
          ...changes,
          ...(isAdmin(viewer) ? { email } : {}),
          ...(await budgetOf(tx, { id, before, budget })),
        })
        if (human === null) throw new NotFoundError(NO_SUCH_HUMAN)
        return { human, roleChange, change: before.change }
      }
      const { human, roleChange, change } = await db.transaction(work).catch((error) => {
        throw conflictOf(error)
      })
      await publishRoleChange({ signals, logger }, roleChange)
      if (toConfirm !== null) await signals.publish(DUE_JOBS_CHANNEL, {})
      if (changes.sharePresence !== undefined)
        await signals.publish(PRESENCE_SHARING_CHANNEL, { type: 'sharing-changed', humanId: id })
      if (change !== null) {
        for (const spaceId of await members.spacesOf(id)) await publisher.changed(spaceId, change)
        jobs.withdraw(PUBLISH_CHANGE, change)
      }
      return human
    },
  }
}

/** @throws ForbiddenError if the viewer may not make one of the changes */
function checkRights(viewer: Viewer, { id, email, externalId, role, budget }: UpdateHumanInput): void {
  const isOfAdmins = email === null || [externalId, role, budget].some((one) => one !== undefined)
  if (!isAdmin(viewer) && (viewer.id !== id || isOfAdmins))
    throw new ForbiddenError(
      'You may change only your own name, picture, email address, time zone and presence setting. An admin may change any human.',
    )
}

const NO_SUCH_HUMAN = 'There is no such human.'

/**
 * Returns the value of the budget column with the changed limits. Also makes events due that were waiting because of
 * the old budget.
 */
async function budgetOf(
  tx: Tx,
  { id, before, budget }: { id: string; before: Pick<Entity, 'budget'>; budget: BudgetInput | null | undefined },
): Promise<HumanChanges> {
  if (budget === undefined) return {}
  const limits = changedBudget(before.budget as BudgetLimits | null, budget)
  await recheckPostponed(tx, { humanId: id })
  return { budget: limits === null ? Prisma.DbNull : { ...limits } }
}

/** @throws BadInputError */
function changesOf({ name, externalId, email, timeZone, sharePresence }: UpdateHumanInput): HumanChanges {
  if (name === null) throw new BadInputError('The name of a human must not be null.', 'input.name')
  if (timeZone != null && !isTimeZone(timeZone))
    throw new BadInputError('The time zone must be an IANA name, such as Europe/Berlin.', 'input.timeZone')
  if (sharePresence === null)
    throw new BadInputError('sharePresence must be true or false, not null.', 'input.sharePresence')
  return {
    ...(name === undefined ? {} : { name: checkName(name, 'input.name') }),
    ...(externalId === undefined ? {} : { externalId: externalId === null ? null : checkExternalId(externalId) }),
    ...(email === undefined ? {} : { email: email === null ? null : checkEmail(email, 'input.email') }),
    ...(timeZone === undefined ? {} : { timeZone }),
    ...(sharePresence === undefined ? {} : { sharePresence }),
  }
}
