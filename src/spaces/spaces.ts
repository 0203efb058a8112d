import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { Prisma, type Routing, type Space } from '../generated/prisma/client.ts'
import { type BudgetInput, type BudgetLimits, changedBudget } from '../lib/budget.ts'
import { BadInputError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { newId, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import { checkName, checkText } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import { fetchPage } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'
import { confidentialAtFirst, confidentialFromNow } from './confiding.ts'
import { checkAgentsMayJoin, countNewSpace } from './joining.ts'
import { holdEntities, lockSpace, MOST_MEMBERS, NO_SUCH_ENTITY, NO_SUCH_SPACE } from './members.ts'
import type { SpacePublisher } from './space-publisher.ts'

export interface CreateSpaceInput {
  name: string
  description?: string | null
  routing: Routing
  adminAgentId?: string | null
  memberIds?: readonly string[] | null
  /** Absent: by PARLEY_CONFIDENTIAL_SPACES. */
  confidential?: boolean | null
  /** Admins only. */
  budget?: BudgetInput | null
}

/** Absent: unchanged. Null: cleared if the field is nullable, else a BadInputError. */
export interface UpdateSpaceInput {
  id: string
  name?: string | null
  description?: string | null
  routing?: Routing | null
  adminAgentId?: string | null
  /** Members may set it; only admins may end it. */
  confidential?: boolean | null
  /** Admins only. */
  budget?: BudgetInput | null
}

/** Spaces and their settings. */
export interface Spaces {
  /**
   * Creates a space; for humans and admins. A human becomes its first member. Members join in the
   * given order; repeats count once.
   * @throws NotFoundError for a member or admin agent that the viewer cannot see; BadInputError if
   * ADMIN routing lacks an admin agent, or it is not an agent member; ForbiddenError by an agent's
   * `addableBy`; LimitExceededError over 500 members, over 1,000 spaces of an agent, or over the
   * allowed number of new spaces of a human within a day
   */
  create(viewer: Viewer, input: CreateSpaceInput): Promise<Space>
  /** Updates a space; for members and admins. Routing and admin agent are validated together if either is given. */
  update(viewer: Viewer, input: UpdateSpaceInput): Promise<Space>
  /** By id, in the order of the ids; null if there is none. Does not check access. */
  getMany(ids: readonly string[]): Promise<(Space | null)[]>
  /** The viewer's spaces, newest first; all spaces for an admin. */
  page(viewer: Viewer, request: PageRequest): Promise<Page<Space>>
  /**
   * By space, the agent that receives human messages under ADMIN routing: the configured one while
   * it is a member; the only agent if none is configured. A space without one is left out.
   */
  adminAgentsOf(spaceIds: readonly string[]): Promise<Map<string, string>>
}

export interface SpaceHooks {
  /** In the transaction that changes the budget: rechecks what had to wait for it. */
  onBudgetChanged(tx: Tx, spaceId: string): Promise<void>
}

export function createSpaces(
  platform: Platform,
  visibility: Pick<Visibility, 'spaces' | 'entities'>,
  publisher: SpacePublisher,
  hooks: SpaceHooks,
): Spaces {
  const { db, clock, config } = platform

  async function getMany(ids: readonly string[]): Promise<(Space | null)[]> {
    const rows = await db.prisma.space.findMany({ where: { id: { in: wellFormedIds(ids) }, deletedAt: null } })
    return inOrderOf(ids, rows)
  }

  return {
    getMany,
    async create(viewer, input) {
      if (viewer.scope === 'SERVICE') throw new ForbiddenError('A service cannot create spaces.')
      checkMayBudget(viewer, input)
      const data = {
        name: checkName(input.name, 'input.name'),
        description:
          input.description == null ? null : checkText(input.description, LONGEST_DESCRIPTION, 'input.description'),
        routing: input.routing,
        adminAgentId: input.adminAgentId ?? null,
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
        return insertSpace(tx, { ...data, creatorId }, memberIds, { now: clock.now(), ...asked })
      })
      await publisher.created(space.id, memberIds)
      return space
    },
    async update(viewer, input) {
      const visible = await visibility.spaces(viewer, [input.id])
      if (!visible.has(input.id)) throw new NotFoundError(NO_SUCH_SPACE)
      checkMayBudget(viewer, input)
      if (input.adminAgentId != null) await checkVisible(viewer, visibility, [input.adminAgentId])
      const changes = changesOf(input)
      const space = await db.transaction(async (tx) => {
        const changed = await changeSpace(tx, viewer, input, changes)
        if (input.budget !== undefined) await hooks.onBudgetChanged(tx, input.id)
        return changed
      })
      await publisher.changed(space.id)
      return space
    },
    async page(viewer, request) {
      const source =
        viewer.scope === 'ADMIN'
          ? Prisma.sql`SELECT id FROM "Space" WHERE "deletedAt" IS NULL`
          : viewer.scope === 'HUMAN'
            ? Prisma.sql`SELECT "spaceId" AS id FROM "Membership" WHERE "entityId" = ${viewer.id}`
            : Prisma.sql`SELECT id FROM "Space" WHERE false`
      return fetchPage(db.prisma, { source, request }, getMany)
    },
    async adminAgentsOf(spaceIds) {
      const rows = await db.prisma.$queryRaw<{ spaceId: string; agentId: string }[]>`
        SELECT s.id AS "spaceId", min(m."entityId") AS "agentId"
        FROM "Space" s JOIN "Membership" m ON m."spaceId" = s.id JOIN "Agent" a ON a.id = m."entityId"
        WHERE s.id = ANY(${[...spaceIds]}::text[]) AND coalesce(s."adminAgentId", m."entityId") = m."entityId"
        GROUP BY s.id HAVING count(*) = 1`
      return new Map(rows.map(({ spaceId, agentId }) => [spaceId, agentId]))
    },
  }
}

const LONGEST_DESCRIPTION = 4000

function checkMayBudget(viewer: Viewer, { budget }: { budget?: BudgetInput | null }): void {
  if (budget !== undefined && viewer.scope !== 'ADMIN')
    throw new ForbiddenError('Only an admin can set the budget of a space.')
}

function columnOf(budget: BudgetLimits | null) {
  return budget === null ? Prisma.DbNull : { ...budget }
}

async function checkVisible(
  viewer: Viewer,
  visibility: Pick<Visibility, 'entities'>,
  entityIds: string[],
): Promise<void> {
  const visible = await visibility.entities(viewer, entityIds)
  if (entityIds.some((id) => !visible.has(id))) throw new NotFoundError(NO_SUCH_ENTITY)
}

interface NewSpace {
  name: string
  description: string | null
  routing: Routing
  adminAgentId: string | null
  budget?: ReturnType<typeof columnOf>
}

async function insertSpace(
  tx: Tx,
  data: NewSpace & { creatorId: string | null },
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
  const space = await tx.space.create({ data: { id: newId('spc'), createdAt: new Date(now), confidential, ...data } })
  await tx.membership.createMany({
    // Join times are a millisecond apart, in the given order; the last one is now.
    data: memberIds.map((entityId, index) => ({
      spaceId: space.id,
      entityId,
      joinedAt: new Date(now - memberIds.length + 1 + index),
    })),
  })
  return space
}

/** Under ADMIN routing, the agent that a human's message wakes must be determined and be a member. */
function checkAdminAgent(
  { routing, adminAgentId }: Pick<NewSpace, 'routing' | 'adminAgentId'>,
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

function changesOf({ name, description, routing, adminAgentId }: UpdateSpaceInput): Partial<NewSpace> {
  if (name === null) throw new BadInputError('The name of a space cannot be null.', 'input.name')
  if (routing === null) throw new BadInputError('The routing of a space cannot be null.', 'input.routing')
  return {
    ...(name === undefined ? {} : { name: checkName(name, 'input.name') }),
    ...(description === undefined
      ? {}
      : {
          description: description === null ? null : checkText(description, LONGEST_DESCRIPTION, 'input.description'),
        }),
    ...(routing === undefined ? {} : { routing }),
    ...(adminAgentId === undefined ? {} : { adminAgentId }),
  }
}

async function changeSpace(
  tx: Tx,
  viewer: Viewer,
  { id, budget, confidential }: UpdateSpaceInput,
  changes: Partial<NewSpace>,
): Promise<Space> {
  const before = await lockSpace(tx, id)
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
    // An admin agent that has left counts as none, unless the update names it again.
    const kept = before.adminAgentId !== null && agentIds.includes(before.adminAgentId) ? before.adminAgentId : null
    checkAdminAgent({ routing: before.routing, adminAgentId: kept, ...changes }, agentIds)
  }
  const budgeted =
    budget === undefined ? {} : { budget: columnOf(changedBudget(before.budget as BudgetLimits | null, budget)) }
  const confided = await confidentialFromNow(tx, viewer, before, confidential)
  return tx.space.update({ where: { id }, data: { ...changes, ...budgeted, ...confided } })
}
