import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { checkExternalId, conflictOf } from '../agents/humans.ts'
import { publishRoleChange } from '../broker/ended-sessions.ts'
import { PRESENCE_SHARING_CHANNEL } from '../broker/topics.ts'
import { type Entity, type HumanRole, Prisma } from '../generated/prisma/client.ts'
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
import { changeRole } from '../stores/human-store.ts'
import { recheckPostponed } from '../stores/inbox-store.ts'
import type { MailLinks } from './mail-links.ts'

/** Absent fields are unchanged. */
export interface UpdateHumanInput {
  id: string
  name?: string | null
  /** Null: none. */
  externalId?: string | null
  role?: HumanRole | null
  /** IANA name. Null: none. */
  timeZone?: string | null
  /** If false, others see the human as OFFLINE, and never as typing. */
  sharePresence?: boolean | null
  /** For admins. Null: none. */
  budget?: BudgetInput | null
  /** Null removes the address, for admins only. The address of a human who changes it stays the same until they open the link that is emailed to the new one. */
  email?: string | null
}

/** Changes humans, publishes a new name in their spaces, and ends the sessions of humans whose role changes. */
export interface HumanUpdates {
  /**
   * Admins may change everything; people only their own name, time zone, address and presence sharing. Their address changes
   * when they open the link that is emailed to the new one. @throws ForbiddenError, NotFoundError for a human that is not visible, BadInputError; ConflictError if another human has the `externalId` or
   * `email`. Also throws ForbiddenError if a human revokes the role ADMIN of the last person who has it.
   */
  update(viewer: Viewer, input: UpdateHumanInput): Promise<Entity>
}

interface UpdateParts {
  mailLinks: Pick<MailLinks, 'requestConfirmation'>
  visibility: Pick<Visibility, 'entities'>
  members: Pick<Members, 'spacesOf'>
  publisher: Pick<SpacePublisher, 'changed'>
}

export function createHumanUpdates(
  { db, signals, logger }: Pick<Platform, 'db' | 'signals' | 'logger'>,
  { mailLinks, visibility, members, publisher }: UpdateParts,
): HumanUpdates {
  /** Returns the address to which a confirmation link must be sent; null for none. @throws BadInputError, ForbiddenError */
  async function emailToConfirm({ id }: Viewer, email: string | null | undefined): Promise<string | null> {
    if (email == null) return null
    // Signing in by email with the new address would grant the role, which an access token does not have.
    if ((await db.prisma.entity.count({ where: { id, role: 'ADMIN' } })) > 0)
      throw new ForbiddenError('An access token cannot change the address of an admin: sign in, or ask another admin.')
    return checkEmail(email, 'input.email')
  }

  return {
    async update(viewer, input) {
      const { id, name, externalId, email, role, budget, ...profile } = input
      const isVisible = prefixOf(id) === 'hum' && (await visibility.entities(viewer, [id])).has(id)
      if (!isVisible) throw new NotFoundError(NO_SUCH_HUMAN)
      checkRights(viewer, input)
      const newEmail = isAdmin(viewer) ? null : await emailToConfirm(viewer, email)
      const data = {
        ...changesOf({ name, externalId, email: isAdmin(viewer) ? email : undefined }),
        ...profileOf(profile),
      }
      if (role === null) throw new BadInputError('The role of a human must not be null.', 'input.role')
      const by = viewer.scope === 'HUMAN' ? viewer.id : null
      const work = async (tx: Tx) => {
        const change = role === undefined ? null : await changeRole(tx, { humanId: id, role, by })
        const limits = budget === undefined ? {} : { budget: await budgetOf(tx, id, budget) }
        const [human] = await tx.entity.updateManyAndReturn({
          where: { id, kind: 'HUMAN', goneAt: null },
          data: { ...data, ...limits },
        })
        if (human === undefined) throw new NotFoundError(NO_SUCH_HUMAN)
        return { human, change }
      }
      const { human, change } = await db.transaction(work).catch((error) => {
        throw conflictOf(error)
      })
      await publishRoleChange({ signals, logger }, change)
      if (profile.sharePresence !== undefined)
        await signals.publish(PRESENCE_SHARING_CHANNEL, { type: 'sharing-changed', humanId: id })
      if (name !== undefined) for (const spaceId of await members.spacesOf(id)) await publisher.changed(spaceId)
      if (newEmail !== null) await mailLinks.requestConfirmation(id, newEmail)
      return human
    },
  }
}

/** @throws ForbiddenError if the viewer may not make one of the changes */
function checkRights(viewer: Viewer, { id, email, externalId, role, budget }: UpdateHumanInput): void {
  const isOfAdmins = email === null || [externalId, role, budget].some((one) => one !== undefined)
  if (!isAdmin(viewer) && (viewer.id !== id || isOfAdmins))
    throw new ForbiddenError(
      'You may change only your own name, address, time zone and presence sharing; an admin may change every human.',
    )
}

const NO_SUCH_HUMAN = 'There is no such human.'

/** Returns the column with the changed limits, and makes events that waited for the old budget due. */
async function budgetOf(tx: Tx, id: string, budget: BudgetInput | null) {
  const [before] = await tx.$queryRaw<{ budget: BudgetLimits | null }[]>`
    SELECT budget FROM "Entity" WHERE id = ${id} AND kind = 'HUMAN' AND "goneAt" IS NULL FOR NO KEY UPDATE`
  if (before === undefined) throw new NotFoundError(NO_SUCH_HUMAN)
  const limits = changedBudget(before.budget, budget)
  await recheckPostponed(tx, { humanId: id })
  return limits === null ? Prisma.DbNull : { ...limits }
}

function profileOf({ timeZone, sharePresence }: Pick<UpdateHumanInput, 'timeZone' | 'sharePresence'>) {
  if (timeZone != null && !isTimeZone(timeZone))
    throw new BadInputError('A time zone is an IANA name, such as Europe/Berlin.', 'input.timeZone')
  if (sharePresence === null)
    throw new BadInputError('sharePresence must be true or false, not null.', 'input.sharePresence')
  return {
    ...(timeZone === undefined ? {} : { timeZone }),
    ...(sharePresence === undefined ? {} : { sharePresence }),
  }
}

function changesOf({ name, externalId, email }: Pick<UpdateHumanInput, 'name' | 'externalId' | 'email'>) {
  if (name === null) throw new BadInputError('The name of a human must not be null.', 'input.name')
  return {
    ...(name === undefined ? {} : { name: checkName(name, 'input.name') }),
    ...(externalId === undefined ? {} : { externalId: externalId === null ? null : checkExternalId(externalId) }),
    ...(email === undefined ? {} : { email: email === null ? null : checkEmail(email, 'input.email') }),
  }
}
