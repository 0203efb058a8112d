import type { Viewer } from '../access/viewer.ts'
import { NO_SUCH_AGENT } from '../agents/existing-agent.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import { ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { CallSettling } from '../runs/call-settling.ts'
import type { Lifecycle } from '../runs/lifecycle.ts'
import { cancelAsked } from '../runs/tool-call-ends.ts'
import type { Members } from '../spaces/members.ts'

/** Deletion of agents. */
export interface AgentDeletion {
  /**
   * Admins only. One transaction removes the agent from its spaces and deletes its consciousness, notes, tools,
   * webhooks and plans; its name and former settings remain for readers of its messages and runs. Then its active runs
   * end as CANCELED, GONE; if this process dies before, a worker ends them. @throws ForbiddenError, NotFoundError
   */
  deleteAgent(viewer: Viewer, input: { id: string }): Promise<{ deletedAgentId: string }>
}

interface DeletionParts {
  members: Pick<Members, 'lockSpacesOf' | 'leaveAll'>
  lifecycle: Pick<Lifecycle, 'endGone'>
  settling: Pick<CallSettling, 'abandon' | 'tell'>
}

export function createAgentDeletion(platform: Platform, parts: DeletionParts): AgentDeletion {
  const { db, clock } = platform
  const { members, lifecycle, settling } = parts

  return {
    async deleteAgent(viewer, { id }) {
      if (viewer.scope !== 'ADMIN') throw new ForbiddenError('Only an admin can delete agents.')
      if (prefixOf(id) !== 'agt') throw new NotFoundError(NO_SUCH_AGENT)
      const { left, asked } = await db.transaction(async (tx) => {
        await members.lockSpacesOf(tx, id)
        await markGone(tx, id, new Date(clock.now()))
        const left = await members.leaveAll(tx, id)
        // Canceling the pending approvals of ended runs completes messages that wait for nothing else.
        const asked = await settling.abandon(tx, await cancelAsked(tx, id))
        await eraseMind(tx, id)
        await tx.agent.delete({ where: { id } })
        return { left, asked }
      })
      await left.afterCommit()
      for (const settled of asked) await settling.tell(settled)
      await lifecycle.endGone()
      return { deletedAgentId: id }
    },
  }
}

/** Marks the agent as deleted, under its row lock, which every write of the agent's rows takes. */
async function markGone(tx: Tx, id: string, goneAt: Date): Promise<void> {
  const [agent] = await tx.$queryRaw<Prisma.JsonObject[]>`
    SELECT model, mind::text, toolset::text FROM "Agent" WHERE id = ${id} FOR UPDATE`
  if (agent === undefined) throw new NotFoundError(NO_SUCH_AGENT)
  await tx.entity.update({ where: { id }, data: { goneAt, formerly: agent as Prisma.InputJsonObject } })
}

/**
 * Deletes rows that refer to the agent without a foreign key. Events claimed by an active cycle are deleted with the
 * cycle.
 */
async function eraseMind(tx: Tx, agentId: string): Promise<void> {
  const untaken = [{ runId: null }, { doneAt: { not: null } }, { retryAt: { not: null } }]
  await tx.inboxEvent.deleteMany({ where: { agentId, OR: untaken } })
  await tx.cycle.deleteMany({ where: { agentId } })
  await tx.webhook.deleteMany({ where: { agentId } })
  await tx.$executeRaw`
    DELETE FROM "PlanFiring" f USING "Plan" p WHERE p."agentId" = ${agentId} AND f."planId" = p.id`
}
