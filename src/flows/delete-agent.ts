import type { Viewer } from '../access/viewer.ts'
import { NO_SUCH_AGENT } from '../agents/existing-agent.ts'
import { createGrantPublisher } from '../agents/grant-publisher.ts'
import type { SettleCall } from '../flows/settle-call.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import { NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { requireAdmin } from '../rules/permissions.ts'
import { deleteAgentRow } from '../stores/agent-store.ts'
import { cancelCallsOfAgent } from '../stores/call-store.ts'
import { deleteConversationsOf } from '../stores/conversation-store.ts'
import { deleteCyclesOfAgent } from '../stores/cycle-store.ts'
import { updateEntity } from '../stores/entity-store.ts'
import { endGrantsOfOtherVersions } from '../stores/grant-store.ts'
import { deleteDoneEvents } from '../stores/inbox-store.ts'
import { deleteFiringsOfAgent } from '../stores/plan-store.ts'
import { lockSpacesOf } from '../stores/space-store.ts'
import { deleteWebhooks } from '../stores/webhook-store.ts'
import type { Leaving } from './leave-space.ts'
import type { Lifecycle } from './lifecycle.ts'

export interface AgentDeletion {
  /**
   * Deletes an agent. Only admins may do this. One transaction removes the agent from its spaces and deletes its
   * consciousness, notes, tools, webhooks and plans. Its name and former settings remain, because readers of its
   * messages and runs still see them. After the commit, drops its inbox events and ends its active runs as CANCELED
   * (GONE). If this process dies first, a worker does this.
   * @throws ForbiddenError, NotFoundError
   */
  deleteAgent(viewer: Viewer, input: { id: string }): Promise<{ deletedAgentId: string }>
  /**
   * Deletes the given agents that are copies and belong to no other space, in the transaction that deletes their only
   * space. `afterCommit` does not end their runs: the caller must call `Lifecycle.endGone`.
   */
  deleteLoneCopies(tx: Tx, ids: readonly string[]): Promise<AgentRemoval>
}

interface AgentRemoval {
  afterCommit(): Promise<void>
}

interface DeletionParts {
  leaving: Pick<Leaving, 'leaveAll'>
  lifecycle: Pick<Lifecycle, 'endGone'>
  settleCall: Pick<SettleCall, 'applyAbandoned' | 'publishSettled'>
}

export function createAgentDeletion(platform: Platform, parts: DeletionParts): AgentDeletion {
  const { db, clock } = platform
  const { leaving, lifecycle, settleCall } = parts
  const grantPublisher = createGrantPublisher(platform)

  async function remove(tx: Tx, id: string): Promise<AgentRemoval> {
    await markGone(tx, id, new Date(clock.now()))
    const left = await leaving.leaveAll(tx, id)
    // This cancels the pending approvals of ended runs, and completes messages whose other calls are finished.
    const settled = await settleCall.applyAbandoned(tx, await cancelCallsOfAgent(tx, id))
    await deleteConversationsOf(tx, id)
    await eraseMind(tx, id)
    const endedGrants = await endGrantsOfOtherVersions(tx, id, new Map())
    await deleteAgentRow(tx, id)
    return {
      async afterCommit() {
        await left.afterCommit()
        for (const one of settled) await settleCall.publishSettled(one)
        for (const grant of endedGrants) await grantPublisher.changed(grant)
      },
    }
  }

  return {
    async deleteAgent(viewer, { id }) {
      requireAdmin(viewer, 'delete agents')
      if (prefixOf(id) !== 'agt') throw new NotFoundError(NO_SUCH_AGENT)
      const removal = await db.transaction(async (tx) => {
        await lockSpacesOf(tx, id)
        return remove(tx, id)
      })
      await removal.afterCommit()
      await lifecycle.endGone()
      return { deletedAgentId: id }
    },
    async deleteLoneCopies(tx, ids) {
      const removals: AgentRemoval[] = []
      for (const id of await lockLoneCopies(tx, ids)) removals.push(await remove(tx, id))
      return {
        async afterCommit() {
          for (const removal of removals) await removal.afterCommit()
        },
      }
    },
  }
}

/** Locks the given agents that are copies, and returns those that belong to no space. */
async function lockLoneCopies(tx: Tx, ids: readonly string[]): Promise<string[]> {
  // The lock waits for transactions that are adding the agent to a space.
  const copies = await tx.$queryRaw<{ id: string }[]>`
    SELECT e.id FROM "Entity" e JOIN "Agent" a ON a.id = e.id AND a."copyOfId" IS NOT NULL
    WHERE e.id = ANY(${[...ids]}::text[]) ORDER BY e.id FOR NO KEY UPDATE OF e`
  const members = await tx.membership.findMany({
    where: { entityId: { in: copies.map(({ id }) => id) } },
    select: { entityId: true },
  })
  return copies.flatMap(({ id }) => (members.some(({ entityId }) => entityId === id) ? [] : [id]))
}

/** Marks the agent as deleted. Locks its row, as does every write to the agent's rows. */
async function markGone(tx: Tx, id: string, goneAt: Date): Promise<void> {
  const [agent] = await tx.$queryRaw<Prisma.JsonObject[]>`
    SELECT model, mind::text, toolset::text FROM "Agent" WHERE id = ${id} FOR UPDATE`
  if (agent === undefined) throw new NotFoundError(NO_SUCH_AGENT)
  await updateEntity(tx, id, { goneAt, formerly: agent as Prisma.InputJsonObject })
}

/** Deletes rows that refer to the agent without a foreign key. */
async function eraseMind(tx: Tx, agentId: string): Promise<void> {
  await deleteDoneEvents(tx, agentId)
  await deleteCyclesOfAgent(tx, agentId)
  await deleteWebhooks(tx, { agentId })
  await deleteFiringsOfAgent(tx, agentId)
}
