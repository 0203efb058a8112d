import type { Viewer } from '../access/viewer.ts'
import { checkAgent } from '../agents/existing-agent.ts'
import { agentChannel } from '../broker/topics.ts'
import type { InboxEvent } from '../generated/prisma/client.ts'
import { NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { requireAdmin } from '../rules/permissions.ts'
import { withCopies } from '../stores/copy-store.ts'
import { deleteCycle, deleteCyclesOfSpace } from '../stores/cycle-store.ts'
import { deleteDoneEventsOfSpace, deleteOpenEvents } from '../stores/inbox-store.ts'
import { deleteNotesOfSpace } from '../stores/knowledge-store.ts'
import { removePlans } from '../stores/plan-store.ts'
import { forgetSpaceInCycles } from '../stores/run-store.ts'
import { lockSpace } from '../stores/space-store.ts'
import { endEvents } from './end-events.ts'

/** Lets admins make an agent forget what it has received. */
export interface Forgetting {
  /**
   * Removes one think cycle from an agent's consciousness.
   * @throws ForbiddenError, NotFoundError
   */
  forgetCycle(viewer: Viewer, input: { cycleId: string }): Promise<{ cycleId: string; agentId: string }>
  /**
   * Deletes everything that an agent received directly in a space.
   * @throws ForbiddenError, NotFoundError
   */
  forgetSpace(viewer: Viewer, input: { agentId: string; spaceId: string }): Promise<{ agentId: string }>
}

const ACTION = 'make an agent forget'
const FORGOTTEN = 'An admin made the agent forget the space before it read the message.'
const EVENTS_AT_ONCE = 100
const NO_SUCH_CYCLE = 'There is no such think cycle.'

export function createForgetting(platform: Pick<Platform, 'db' | 'jobs' | 'signals' | 'log' | 'config'>): Forgetting {
  const { db, signals } = platform
  const tellOf = (agentId: string) => signals.publish(agentChannel(agentId), { type: 'run-changed' })

  return {
    async forgetCycle(viewer, { cycleId }) {
      requireAdmin(viewer, ACTION)
      if (prefixOf(cycleId) !== 'cyc') throw new NotFoundError(NO_SUCH_CYCLE)
      const agentId = await db.transaction(async (tx) => {
        const agentId = await deleteCycle(tx, cycleId)
        if (agentId === null) throw new NotFoundError(NO_SUCH_CYCLE)
        return agentId
      })
      await tellOf(agentId)
      return { cycleId, agentId }
    },
    async forgetSpace(viewer, { agentId, spaceId }) {
      requireAdmin(viewer, ACTION)
      const agentIds = [agentId]
      const inExisting = async (forget: (tx: Tx) => Promise<InboxEvent[]>): Promise<number> => {
        const { count, ended } = await db.transaction(async (tx) => {
          await lockSpace(tx, spaceId)
          await checkAgent(tx, agentId)
          const events = await forget(tx)
          return { count: events.length, ended: await endEvents(tx, platform, { events, reason: FORGOTTEN }) }
        })
        await ended.afterCommit()
        return count
      }
      // Deletes in batches. An inbox can contain thousands of events with turns in chains, and deleting all of them
      // at once would lock the space for too long.
      const someEvents = (tx: Tx) => deleteOpenEvents(tx, { agentIds, spaceId, most: EVENTS_AT_ONCE })
      let count = EVENTS_AT_ONCE
      while (count === EVENTS_AT_ONCE) count = await inExisting(someEvents)
      await inExisting((tx) => forgetSpace(tx, { spaceId, agentIds }))
      await tellOf(agentId)
      return { agentId }
    },
  }
}

/**
 * Makes agents forget everything that they received directly in a space: think cycles, memories, goals, plans and
 * inbox events. An active cycle that received some of this continues, but is not added to the consciousness. Runs in
 * the caller's transaction. This function alone defines what agents forget with a space. Returns the deleted events
 * that no cycle has claimed; the caller must end them with `endEvents`.
 * @param copyIds agents that the caller changes afterwards. All agents are locked in the order of their ids.
 */
export async function forgetSpace(
  tx: Tx,
  { spaceId, agentIds, copyIds = [] }: { spaceId: string; agentIds: string[]; copyIds?: readonly string[] },
): Promise<InboxEvent[]> {
  // Locks the run before the agent, as does the end of a cycle. Therefore either this transaction sees the stored
  // cycle, or the end of the cycle sees that the cycle must be forgotten.
  await forgetSpaceInCycles(tx, agentIds, spaceId)
  const lockedIds = [...agentIds, ...copyIds]
  await tx.$queryRaw`SELECT 1 FROM "Agent" WHERE id = ANY(${lockedIds}::text[]) ORDER BY id FOR NO KEY UPDATE`
  const plans = await tx.plan.findMany({
    where: { agentId: { in: agentIds }, places: { has: spaceId } },
    select: { id: true },
  })
  await removePlans(
    tx,
    plans.map(({ id }) => id),
  )
  await deleteCyclesOfSpace(tx, agentIds, spaceId)
  await deleteNotesOfSpace(tx, agentIds, spaceId)
  await deleteDoneEventsOfSpace(tx, agentIds, spaceId)
  return deleteOpenEvents(tx, { agentIds, spaceId })
}

/**
 * Makes the agents of a space that is being deleted forget the space. Copies of these agents also forget memories and
 * goals from this space, unless a copy of the space that still exists is another source of them. Returns the deleted
 * events of other spaces.
 */
export async function forgetSpaceWithCopies(
  tx: Tx,
  { spaceId, agentIds }: { spaceId: string; agentIds: string[] },
): Promise<InboxEvent[]> {
  const copyIds = (await withCopies(tx, agentIds)).filter((id) => !agentIds.includes(id))
  const events = await forgetSpace(tx, { spaceId, agentIds, copyIds })
  const elsewhere = events.filter((event) => event.spaceId !== spaceId)
  if (copyIds.length === 0) return elsewhere
  const spaceCopies = (await withCopies(tx, [spaceId])).filter((id) => id !== spaceId)
  const living = await tx.space.findMany({ where: { id: { in: spaceCopies }, deletedAt: null }, select: { id: true } })
  await deleteNotesOfSpace(tx, copyIds, spaceId, { unlessFrom: living.map(({ id }) => id) })
  return elsewhere
}
