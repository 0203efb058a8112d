import { ADMIN_CHANNEL, agentChannel, entityChannel, spaceChannel } from '../broker/topics.ts'
import type { ToolCall } from '../generated/prisma/client.ts'
import type { Platform } from '../platform/platform.ts'
import type { NamedApprovers } from '../rules/approvals.ts'

/** The call that a signal concerns. */
export interface PublishedCall extends Partial<NamedApprovers> {
  id: string
  agentId: string
  /** The space that shows the call; null if no space does. */
  spaceId: string | null
}

/** The recipients of a signal: people and services who may answer the call, or people who may approve it. */
export type Audience = 'answerers' | 'deciders'

/**
 * Publishes signals about waiting calls after the commit. The recipients are the approvers, or the members of the space
 * that shows the call, the services of the agent, and admins.
 */
export interface CallPublisher {
  /** Publishes that the call has begun to wait. */
  waits(call: PublishedCall, audience?: Audience): Promise<void>
  /** Publishes that the call's approval changed, or that somebody claimed the call. */
  changed(call: PublishedCall, audience: Audience): Promise<void>
  /** Publishes that the call no longer waits: it was answered or decided, has timed out, or its run has ended. */
  settled(call: PublishedCall, audience?: Audience): Promise<void>
  /** Publishes that additional named people have been asked for approval. */
  escalated(call: PublishedCall & NamedApprovers): Promise<void>
}

export function createCallPublisher({ signals }: Pick<Platform, 'signals'>): CallPublisher {
  async function tell(
    type: 'tool-waiting' | 'tool-changed' | 'tool-settled',
    call: PublishedCall,
    audience: Audience,
  ): Promise<void> {
    const signal = { type, toolCallId: call.id, audience }
    const channels = audience === 'answerers' ? channelsOfAnswerers(call) : channelsOfDeciders(call)
    await Promise.all(channels.map((channel) => signals.publish(channel, signal)))
  }

  return {
    waits: (call, audience = 'answerers') => tell('tool-waiting', call, audience),
    changed: (call, audience) => tell('tool-changed', call, audience),
    settled: (call, audience = 'answerers') => tell('tool-settled', call, audience),
    escalated: ({ escalateToIds, ...call }) =>
      tell('tool-waiting', { ...call, approverIds: escalateToIds }, 'deciders'),
  }
}

function channelsOfAnswerers({ spaceId, agentId }: PublishedCall): string[] {
  return [...(spaceId === null ? [] : [spaceChannel(spaceId)]), agentChannel(agentId), ADMIN_CHANNEL]
}

/**
 * Returns the channels of the named approvers, or of the space if there are none. After an escalation, also returns
 * those of the escalation contacts.
 */
function channelsOfDeciders({
  spaceId,
  approverIds = [],
  escalateToIds = [],
  escalatedAt = null,
}: PublishedCall): string[] {
  const named = [...approverIds, ...(escalatedAt === null ? [] : escalateToIds)]
  const everybody = approverIds.length === 0 && spaceId !== null ? [spaceChannel(spaceId)] : []
  return [...everybody, ...[...new Set(named)].map(entityChannel)]
}

/** Returns the recipients of the call's latest signals. */
export function audienceOf({ approvalState }: Pick<ToolCall, 'approvalState'>): Audience {
  return approvalState === null || approvalState === 'APPROVED' ? 'answerers' : 'deciders'
}
