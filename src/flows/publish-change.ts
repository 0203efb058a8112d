import { runTopic } from '../broker/topics.ts'
import type { ToolCall } from '../generated/prisma/client.ts'
import { type BoundJob, bindJob } from '../jobs/job.ts'
import { PUBLISH_CHANGE } from '../jobs/queues.ts'
import type { Platform } from '../platform/platform.ts'
import { messageOfRow } from '../rules/message.ts'
import { isEndedRun, isFinalMessage, isSettledCall } from '../rules/statuses.ts'
import { audienceOf, createCallPublisher } from '../runs/call-publisher.ts'
import { appending } from '../runs/run-events.ts'
import { createMembers } from '../spaces/members.ts'
import { createMessagePublisher } from '../spaces/message-publisher.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { lockSpaceRow } from '../stores/space-store.ts'
import { endEventOf, type MessageRecovery } from './recover-messages.ts'
import type { SettleCall } from './settle-call.ts'

interface PublishingParts {
  publisher: Pick<SpacePublisher, 'changed' | 'joined' | 'left' | 'deleted'>
  settleCall: Pick<SettleCall, 'publishChanged'>
  recovery: Pick<MessageRecovery, 'settle'>
}

/**
 * Publishes changes whose process died after the commit. Publishes the current state instead of the state after the
 * change, so that subscribers never go back to an older state. An event that was already published has no effect, or
 * makes subscribers read the same state again.
 */
export function createChangePublishing(
  platform: Platform,
  { publisher, settleCall, recovery }: PublishingParts,
): BoundJob {
  const { db, log } = platform
  const messages = createMessagePublisher(platform)
  const callPublisher = createCallPublisher(platform)
  const members = createMembers(platform)

  async function publishMember(spaceId: string, entityId: string, change: string): Promise<void> {
    await db.transaction(async (tx) => {
      // Publishes under the lock, so that a later change of the membership is committed and published afterwards. The
      // lock is short even if Redis does not respond, because the event is then buffered.
      await lockSpaceRow(tx, spaceId)
      const isMember = (await tx.membership.count({ where: { spaceId, entityId } })) > 0
      if (isMember) await publisher.joined(spaceId, entityId, change)
      else await publisher.left(spaceId, entityId, change)
    })
  }

  async function publishSpace(spaceId: string, change: string): Promise<void> {
    const isThere = (await db.prisma.space.count({ where: { id: spaceId, deletedAt: null } })) > 0
    // The former members of a deleted space are no longer known. Their subscriptions check the memberships at
    // intervals.
    if (isThere) await publisher.changed(spaceId, change)
    else await publisher.deleted(spaceId, [])
  }

  /** @param isOfCall whether the message shows a call. The result of the call may have finished the message. */
  async function publishMessage(messageId: string, isOfCall: boolean): Promise<void> {
    const row = await db.prisma.message.findUnique({ where: { id: messageId } })
    if (row === null) return
    const message = messageOfRow(row)
    if (isOfCall && isFinalMessage(row.status)) await messages.ended(message, null)
    await messages.updated(message)
  }

  async function publishSignals(call: ToolCall): Promise<void> {
    if (call.status === 'WAITING') {
      if (call.approvalState === 'APPROVED') await callPublisher.settled(call, 'deciders')
      return callPublisher.waits(call, audienceOf(call))
    }
    if (call.approvalState !== null) await callPublisher.settled(call, 'deciders')
    if (call.expiresAt !== null) await callPublisher.settled(call, 'answerers')
  }

  async function publishCall(toolCallId: string): Promise<void> {
    const call = await db.prisma.toolCall.findUnique({ where: { id: toolCallId } })
    if (call === null) return
    await settleCall.publishChanged(call, audienceOf(call))
    await publishSignals(call)
    if (call.messageId !== null) await publishMessage(call.messageId, true)
    if (!isSettledCall(call.status)) return
    const event = { type: 'RunToolReturned' as const, toolCallId }
    await log.append(runTopic(call.runId), event, appending(call.runId, event))
  }

  async function publishRunEnd(runId: string): Promise<void> {
    const run = await db.prisma.run.findUnique({ where: { id: runId } })
    if (run !== null && isEndedRun(run.status)) await recovery.settle(run, endEventOf(run))
  }

  return bindJob(PUBLISH_CHANGE, async (input) => {
    switch (input.type) {
      case 'member':
        return publishMember(input.spaceId, input.entityId, input.change)
      case 'space':
        return publishSpace(input.spaceId, input.change)
      case 'human':
        for (const spaceId of await members.spacesOf(input.humanId)) await publisher.changed(spaceId, input.change)
        return
      case 'message':
        return publishMessage(input.messageId, false)
      case 'call':
        return publishCall(input.toolCallId)
      case 'run':
        return publishRunEnd(input.runId)
    }
  })
}
