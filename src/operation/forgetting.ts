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

/** What admins make an agent forget. */
export interface Forgetting {
  /** One think cycle less in a consciousness. @throws ForbiddenError, NotFoundError */
  forgetCycle(viewer: Viewer, input: { cycleId: string }): Promise<{ cycleId: string; agentId: string }>
  /** What an agent keeps that it was given directly in a space. @throws ForbiddenError, NotFoundError */
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

/** What an agent keeps beside its plans and its inbox, each with the spaces that it comes from. */
const KEPT = ['Cycle', 'Memory', 'Goal'].map((table) => Prisma.raw(`"${table}"`))
const LIVES = Prisma.sql`r."triggerType" = 'INBOX' AND r.status IN ('QUEUED', 'RUNNING', 'WAITING_TOOL')`

/**
 * Agents forget what they were given directly in a space: think cycles, memories, goals, plans, and events of their inboxes. A cycle
 * that lives, and has been given something of it, comes to its end and is not remembered. In the caller's transaction; the one place
 * that says what forgetting a space is.
 */
export async function forgetSpace(
  tx: Tx,
  { spaceId, agentIds }: { spaceId: string; agentIds: string[] },
): Promise<void> {
  const theirs = Prisma.sql`"agentId" = ANY(${agentIds}::text[])`
  // In the order of a cycle's end, its run and then its agent: what that remembers is seen here, or it sees that it is to be forgotten.
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
