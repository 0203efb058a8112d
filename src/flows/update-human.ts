import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { checkExternalId, EXTERNAL_ID_TAKEN } from '../agents/humans.ts'
import { publishRoleChange } from '../broker/ended-sessions.ts'
import type { Entity, HumanRole } from '../generated/prisma/client.ts'
import { BadInputError, ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import { checkName } from '../lib/validate.ts'
import { isUniqueViolation } from '../platform/database-errors.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { Members } from '../spaces/members.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { changeRole } from '../stores/human-store.ts'

/** Absent fields are unchanged. */
export interface UpdateHumanInput {
  id: string
  name?: string | null
  /** Null: none. */
  externalId?: string | null
  role?: HumanRole | null
}

/** Changes humans, publishes a new name in their spaces, and ends the sessions of those who get another role. */
export interface HumanUpdates {
  /**
   * Admins may change everything, a human only its own name. @throws ForbiddenError, NotFoundError for a human that is
   * not visible, BadInputError; ConflictError if another human has the `externalId`. ForbiddenError also if a human
   * takes the role ADMIN from the last person who has it.
   */
  update(viewer: Viewer, input: UpdateHumanInput): Promise<Entity>
}

interface UpdateParts {
  visibility: Pick<Visibility, 'entities'>
  members: Pick<Members, 'spacesOf'>
  publisher: Pick<SpacePublisher, 'changed'>
}

export function createHumanUpdates(
  { db, signals, logger }: Pick<Platform, 'db' | 'signals' | 'logger'>,
  { visibility, members, publisher }: UpdateParts,
): HumanUpdates {
  return {
    async update(viewer, { id, name, externalId, role }) {
      const isVisible = prefixOf(id) === 'hum' && (await visibility.entities(viewer, [id])).has(id)
      if (!isVisible) throw new NotFoundError(NO_SUCH_HUMAN)
      if (viewer.scope !== 'ADMIN' && (viewer.id !== id || externalId !== undefined || role !== undefined))
        throw new ForbiddenError('You may change only your own name; an admin may change every human.')
      const data = changesOf({ name, externalId })
      if (role === null) throw new BadInputError('The role of a human must not be null.', 'input.role')
      const by = viewer.scope === 'HUMAN' ? viewer.id : null
      const work = async (tx: Tx) => {
        const change = role === undefined ? null : await changeRole(tx, { humanId: id, role, by })
        const [human] = await tx.entity.updateManyAndReturn({ where: { id, kind: 'HUMAN', goneAt: null }, data })
        if (human === undefined) throw new NotFoundError(NO_SUCH_HUMAN)
        return { human, change }
      }
      const { human, change } = await db.transaction(work).catch((error) => {
        throw isUniqueViolation(error) ? new ConflictError(EXTERNAL_ID_TAKEN) : error
      })
      await publishRoleChange({ signals, logger }, change)
      if (name !== undefined) for (const spaceId of await members.spacesOf(id)) await publisher.changed(spaceId)
      return human
    },
  }
}

const NO_SUCH_HUMAN = 'There is no such human.'

function changesOf({ name, externalId }: Omit<UpdateHumanInput, 'id' | 'role'>) {
  if (name === null) throw new BadInputError('The name of a human must not be null.', 'input.name')
  return {
    ...(name === undefined ? {} : { name: checkName(name, 'input.name') }),
    ...(externalId === undefined ? {} : { externalId: externalId === null ? null : checkExternalId(externalId) }),
  }
}
