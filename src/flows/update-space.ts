import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import type { Routing, Space } from '../generated/prisma/client.ts'
import { PUBLISH_CHANGE } from '../jobs/queues.ts'
import { type BudgetInput, type BudgetLimits, changedBudget } from '../lib/budget.ts'
import { BadInputError, NotFoundError } from '../lib/errors.ts'
import { checkName, checkText } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { checkHasHuman, confidentialFromNow } from '../rules/space-confidentiality.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { recheckPostponed } from '../stores/inbox-store.ts'
import { lockChangingSpace, NO_SUCH_SPACE, updateSpace } from '../stores/space-store.ts'
import {
  checkAdminAgent,
  checkMayBudget,
  checkVisible,
  columnOf,
  LONGEST_DESCRIPTION,
  type SpaceSettings,
} from './create-space.ts'
import { NO_SUCH_ENTITY } from './join-space.ts'

/**
 * The changes to a space. Absent fields stay unchanged. Null clears a nullable field; for other fields, null is a
 * BadInputError.
 */
export interface UpdateSpaceInput {
  id: string
  name?: string | null
  description?: string | null
  routing?: Routing | null
  adminAgentId?: string | null
  mentionNarrows?: boolean | null
  /** Members may only set this field to true; admins may also set it to false. */
  confidential?: boolean | null
  /** Only admins may set this field. */
  budget?: BudgetInput | null
}

/** Changes the settings of spaces. */
export interface SpaceUpdates {
  /**
   * Updates a space. Only members and admins may do this. If the routing or the admin agent is given, validates the
   * combination.
   */
  update(viewer: Viewer, input: UpdateSpaceInput): Promise<Space>
}

interface UpdateParts {
  visibility: Pick<Visibility, 'spaces' | 'entities'>
  publisher: Pick<SpacePublisher, 'changed'>
}

export function createSpaceUpdates(
  { db, jobs }: Pick<Platform, 'db' | 'jobs'>,
  { visibility, publisher }: UpdateParts,
): SpaceUpdates {
  return {
    async update(viewer, input) {
      const visible = await visibility.spaces(viewer, [input.id])
      if (!visible.has(input.id)) throw new NotFoundError(NO_SUCH_SPACE)
      checkMayBudget(viewer, input)
      if (input.adminAgentId != null) await checkVisible(viewer, visibility, [input.adminAgentId])
      const changes = changesOf(input)
      const { space, change } = await db.transaction(async (tx) => {
        const changed = await changeSpace(tx, viewer, input, changes)
        // Events that were waiting because of the old budget may be due now.
        if (input.budget !== undefined) await recheckPostponed(tx, { spaceId: input.id })
        return changed
      })
      await publisher.changed(space.id, change)
      jobs.withdraw(PUBLISH_CHANGE, change)
      return space
    },
  }
}

function changesOf({
  name,
  description,
  routing,
  adminAgentId,
  mentionNarrows,
}: UpdateSpaceInput): Partial<SpaceSettings> {
  if (name === null) throw new BadInputError('The name of a space cannot be null.', 'input.name')
  if (routing === null) throw new BadInputError('The routing of a space cannot be null.', 'input.routing')
  if (mentionNarrows === null)
    throw new BadInputError('The setting mentionNarrows of a space cannot be null.', 'input.mentionNarrows')
  return {
    ...(name === undefined ? {} : { name: checkName(name, 'input.name') }),
    ...(description === undefined
      ? {}
      : {
          description: description === null ? null : checkText(description, LONGEST_DESCRIPTION, 'input.description'),
        }),
    ...(routing === undefined ? {} : { routing }),
    ...(adminAgentId === undefined ? {} : { adminAgentId }),
    ...(mentionNarrows === undefined ? {} : { mentionNarrows }),
  }
}

async function changeSpace(
  tx: Tx,
  viewer: Viewer,
  { id, budget, confidential }: UpdateSpaceInput,
  changes: Partial<SpaceSettings>,
): Promise<{ space: Space; change: string }> {
  const { space: before, change } = await lockChangingSpace(tx, id)
  if (
    changes.adminAgentId != null &&
    (await tx.entity.count({ where: { id: changes.adminAgentId, goneAt: null } })) === 0
  ) {
    throw new NotFoundError(NO_SUCH_ENTITY)
  }
  if (changes.routing !== undefined || changes.adminAgentId !== undefined) {
    const agents = await tx.membership.findMany({
      where: { spaceId: id, entity: { kind: 'AGENT' } },
      select: { entityId: true },
    })
    const agentIds = agents.map(({ entityId }) => entityId)
    // Ignores a configured admin agent that has left the space.
    const kept = before.adminAgentId !== null && agentIds.includes(before.adminAgentId) ? before.adminAgentId : null
    checkAdminAgent({ routing: before.routing, adminAgentId: kept, ...changes }, agentIds)
  }
  const budgeted =
    budget === undefined ? {} : { budget: columnOf(changedBudget(before.budget as BudgetLimits | null, budget)) }
  const confided = confidentialFromNow(confidential, { before: before.confidential, viewer })
  if (confided === true) checkHasHuman(await tx.membership.count({ where: { spaceId: id, entity: { kind: 'HUMAN' } } }))
  const changed = { ...changes, ...budgeted, ...(confided === null ? {} : { confidential: confided }) }
  return { space: await updateSpace(tx, id, changed), change }
}
