import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { Prisma, type Routing, type Space } from '../generated/prisma/client.ts'
import { type BudgetInput, type BudgetLimits, changedBudget } from '../lib/budget.ts'
import { BadInputError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import { checkName, checkText } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin, requireAdmin } from '../rules/permissions.ts'
import { confidentialAtFirst } from '../rules/space-confidentiality.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { insertMembers } from '../stores/membership-store.ts'
import { countCreation, insertSpace } from '../stores/space-store.ts'
import { checkAgentsMayJoin, holdEntities, MOST_MEMBERS, NO_SUCH_ENTITY } from './join-space.ts'

export interface CreateSpaceInput {
  name: string
  description?: string | null
  routing: Routing
  adminAgentId?: string | null
  memberIds?: readonly string[] | null
  mentionNarrows?: boolean | null
  /** If absent, PARLEY_CONFIDENTIAL_SPACES determines whether the space is confidential. */
  confidential?: boolean | null
  /** The budget. Only admins may set one. */
  budget?: BudgetInput | null
}

/** Creates spaces. */
export interface SpaceCreation {
  /**
   * Creates a space. Humans and admins may do this. A human who creates a space becomes its first member. The other
   * members join in the given order; duplicates are ignored.
   * @throws NotFoundError if the viewer cannot see a member or the admin agent; BadInputError if ADMIN routing lacks
   * an admin agent, or if the admin agent is not a member; ForbiddenError if an agent's `addableBy` forbids it;
   * LimitExceededError above 500 members, 1,000 spaces of an agent, or the number of spaces that a human may create
   * within a day
   * @param also runs in the same transaction, and can roll it back by throwing
   */
  create(viewer: Viewer, input: CreateSpaceInput, also?: (tx: Tx, space: Space) => Promise<void>): Promise<Space>
}

interface CreationParts {
  visibility: Pick<Visibility, 'entities'>
  publisher: Pick<SpacePublisher, 'created'>
}

export function createSpaceCreation(platform: Platform, { visibility, publisher }: CreationParts): SpaceCreation {
  const { db, clock, config } = platform

  return {
    async create(viewer, input, also = async () => {}) {
      if (viewer.scope === 'SERVICE') throw new ForbiddenError('A service cannot create spaces.')
      checkMayBudget(viewer, input)
      const data = {
        name: checkName(input.name, 'input.name'),
        description:
          input.description == null ? null : checkText(input.description, LONGEST_DESCRIPTION, 'input.description'),
        routing: input.routing,
        adminAgentId: input.adminAgentId ?? null,
        mentionNarrows: input.mentionNarrows ?? false,
        ...(input.budget == null ? {} : { budget: columnOf(changedBudget(null, input.budget)) }),
      }
      const memberIds = [...new Set([...(viewer.scope === 'HUMAN' ? [viewer.id] : []), ...(input.memberIds ?? [])])]
      if (memberIds.length > MOST_MEMBERS) throw new LimitExceededError(`A space has at most ${MOST_MEMBERS} members.`)
      await checkVisible(viewer, visibility, [...memberIds, ...(data.adminAgentId === null ? [] : [data.adminAgentId])])
      const creatorId = viewer.scope === 'HUMAN' ? viewer.id : null
      const space = await db.transaction(async (tx) => {
        await countNewSpace(tx, viewer, clock.now(), config.limits.maxNewSpacesPerDay)
        await checkAgentsMayJoin(tx, viewer, memberIds)
        const asked = { asked: input.confidential, isDefault: config.confidentialSpaces }
        const created = await createSpace(tx, { ...data, creatorId }, memberIds, { now: clock.now(), ...asked })
        await also(tx, created)
        return created
      })
      await publisher.created(space, memberIds)
      return space
    },
  }
}

/**
 * Counts a space that a human is creating, in the transaction that creates the space. Spaces that admins create do
 * not count.
 * @throws LimitExceededError if the human has already created `most` spaces within a day. If `most` is 0, there is no
 * limit.
 */
export async function countNewSpace(tx: Tx, viewer: Viewer, now: number, most: number): Promise<void> {
  if (isAdmin(viewer) || most === 0) return
  if (await countCreation(tx, viewer.id, { now, most })) return
  throw new LimitExceededError(
    `You have created ${most} spaces within a day (PARLEY_MAX_NEW_SPACES_PER_DAY): try again later, or ask an admin to create one.`,
  )
}

/** The maximum length of a space's description, in characters. */
export const LONGEST_DESCRIPTION = 4000

/**
 * Checks that a budget is set only by an admin.
 * @throws ForbiddenError
 */
export function checkMayBudget(viewer: Viewer, { budget }: { budget?: BudgetInput | null }): void {
  if (budget !== undefined) requireAdmin(viewer, 'set the budget of a space')
}

export function columnOf(budget: BudgetLimits | null) {
  return budget === null ? Prisma.DbNull : { ...budget }
}

/** @throws NotFoundError if the viewer cannot see one of the entities */
export async function checkVisible(
  viewer: Viewer,
  visibility: Pick<Visibility, 'entities'>,
  entityIds: string[],
): Promise<void> {
  const visible = await visibility.entities(viewer, entityIds)
  if (entityIds.some((id) => !visible.has(id))) throw new NotFoundError(NO_SUCH_ENTITY)
}

/** The settings of a space. */
export interface SpaceSettings {
  name: string
  description: string | null
  routing: Routing
  adminAgentId: string | null
  mentionNarrows: boolean
  budget?: ReturnType<typeof columnOf>
}

async function createSpace(
  tx: Tx,
  data: SpaceSettings & { creatorId: string | null },
  memberIds: string[],
  { now, asked, isDefault }: { now: number; asked: boolean | null | undefined; isDefault: boolean },
): Promise<Space> {
  const ids = [...memberIds, ...(data.adminAgentId === null ? [] : [data.adminAgentId])]
  const entities = await holdEntities(tx, ids)
  const kinds = new Map(entities.map(({ id, kind }) => [id, kind]))
  const agentIds = memberIds.filter((id) => kinds.get(id) === 'AGENT')
  checkAdminAgent(data, agentIds)
  const humans = memberIds.length - agentIds.length
  const confidential = confidentialAtFirst(asked, { humans, isDefault })
  const space = await insertSpace(tx, { id: newId('spc'), createdAt: new Date(now), confidential, ...data })
  // Join times differ by one millisecond each, so that the members keep the given order. The last member joins now.
  const joinedAt = (index: number) => new Date(now - memberIds.length + 1 + index)
  await insertMembers(
    tx,
    memberIds.map((entityId, index) => ({ spaceId: space.id, entityId, joinedAt: joinedAt(index) })),
  )
  return space
}

/** Checks that a space with ADMIN routing has an admin agent, and that this agent is a member. */
export function checkAdminAgent(
  { routing, adminAgentId }: Pick<SpaceSettings, 'routing' | 'adminAgentId'>,
  agentIds: string[],
): void {
  if (adminAgentId !== null && !agentIds.includes(adminAgentId)) {
    throw new BadInputError('The admin agent must be an agent that is a member of the space.', 'input.adminAgentId')
  }
  if (routing === 'ADMIN' && adminAgentId === null && agentIds.length > 1) {
    throw new BadInputError(
      'ADMIN routing with several agents needs an admin agent: set adminAgentId.',
      'input.adminAgentId',
    )
  }
}
