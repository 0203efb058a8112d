import type { Viewer } from '../access/viewer.ts'
import { checkAgent } from '../agents/existing-agent.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import { removePlans } from '../plans/plans.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { agentChannel } from '../realtime/topics.ts'
import { lockSpace } from '../spaces/members.ts'

/** Lets admins make an agent forget. */
export interface Forgetting {
  /** Removes one think cycle from a consciousness. @throws ForbiddenError, NotFoundError */
  forgetCycle(viewer: Viewer, input: { cycleId: string }): Promise<{ cycleId: string; agentId: string }>
  /** Deletes what an agent was given directly in a space. @throws ForbiddenError, NotFoundError */
  forgetSpace(viewer: Viewer, input: { agentId: string; spaceId: string }): Promise<{ agentId: string }>
}

const ADMINS_ONLY = 'Only an admin can make an agent forget.'
const NO_SUCH_CYCLE = 'There is no such think cycle.'

export function createForgetting({ db, signals }: Pick<Platform, 'db' | 'signals'>): Forgetting {
  const tellOf = (agentId: string) => signals.publish(agentChannel(agentId), { type: 'run-changed' })

  return {
    async forgetCycle(viewer, { cycleId }) {
      if (viewer.scope !== 'ADMIN') throw new ForbiddenError(ADMINS_ONLY)
      if (prefixOf(cycleId) !== 'cyc') throw new NotFoundError(NO_SUCH_CYCLE)
      const agentId = await db.transaction(async (tx) => {
        const [forgotten] = await tx.$queryRaw<{ agentId: string }[]>`
          DELETE FROM "Cycle" WHERE id = ${cycleId} RETURNING "agentId"`
        if (forgotten === undefined) throw new NotFoundError(NO_SUCH_CYCLE)
        return forgotten.agentId
      })
      await tellOf(agentId)
      return { cycleId, agentId }
    },
    async forgetSpace(viewer, { agentId, spaceId }) {
      if (viewer.scope !== 'ADMIN') throw new ForbiddenError(ADMINS_ONLY)
      await db.transaction(async (tx) => {
        await lockSpace(tx, spaceId)
        await checkAgent(tx, agentId)
        await forgetSpace(tx, { spaceId, agentIds: [agentId] })
      })
      await tellOf(agentId)
      return { agentId }
    },
  }
}

/** The tables of an agent's knowledge, besides plans and inbox events, whose rows name their source spaces. */
const KEPT = ['Cycle', 'Memory', 'Goal'].map((table) => Prisma.raw(`"${table}"`))
const LIVES = Prisma.sql`r."triggerType" = 'INBOX' AND r.status IN ('QUEUED', 'RUNNING', 'WAITING_TOOL')`

/**
 * Makes agents forget what they were given directly in a space: think cycles, memories, goals, plans and inbox events.
 * An active cycle that was given some of it continues to its end and is not remembered. Runs in the caller's
 * transaction. This function alone defines what forgetting a space means.
 */
export async function forgetSpace(
  tx: Tx,
  { spaceId, agentIds }: { spaceId: string; agentIds: string[] },
): Promise<void> {
  const theirs = Prisma.sql`"agentId" = ANY(${agentIds}::text[])`
  // Locks in the order of a cycle's end, run before agent: either this sees the remembered cycle, or the cycle's end
  // sees that it is to be forgotten.
  await tx.$executeRaw`
    UPDATE "Run" r SET forgets = array_append(r.forgets, ${spaceId}) WHERE r.${theirs} AND ${LIVES} AND (
      ${spaceId} = ANY(r.places) OR EXISTS (SELECT 1 FROM "InboxEvent" e WHERE e."runId" = r.id AND e."spaceId" = ${spaceId}))`
  await tx.$queryRaw`SELECT 1 FROM "Agent" WHERE id = ANY(${agentIds}::text[]) ORDER BY id FOR NO KEY UPDATE`
  const plans = await tx.plan.findMany({
    where: { agentId: { in: agentIds }, places: { has: spaceId } },
    select: { id: true },
  })
  await removePlans(
    tx,
    plans.map(({ id }) => id),
  )
  for (const kept of KEPT) await tx.$executeRaw`DELETE FROM ${kept} WHERE ${theirs} AND ${spaceId} = ANY(places)`
  await tx.$executeRaw`
    DELETE FROM "InboxEvent" e WHERE ${theirs} AND (e."spaceId" = ${spaceId} OR ${spaceId} = ANY(e.places))
      AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r.id = e."runId" AND ${LIVES})`
}
