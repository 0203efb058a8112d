import type { ToolCall } from '../generated/prisma/client.ts'
import type { Platform } from '../platform/platform.ts'
import { ADMIN_CHANNEL, agentChannel, entityChannel, spaceChannel } from '../realtime/topics.ts'
import type { AskedCall } from './approval.ts'

/** The tool call that something is told of. */
export interface PublishedCall extends Partial<AskedCall> {
  id: string
  agentId: string
  /** Where it shows; null where it shows nowhere. */
  spaceId: string | null
}

/** Whom it is told: who may give its result or the message that it waits for, or who may decide on it. */
export type Audience = 'answerers' | 'deciders'

/** Tells who may answer a call, once that is committed: the members of the space that it shows in, its agent's services, and admins. */
export interface CallPublisher {
  /** It waits for an answer now. */
  waits(call: PublishedCall, audience?: Audience): Promise<void>
  /** What is asked about it changed, or who sees to it. */
  changed(call: PublishedCall, audience: Audience): Promise<void>
  /** It waits no longer: it was answered or decided, its time is up, or its run is over. */
  settled(call: PublishedCall, audience?: Audience): Promise<void>
  /** Others are asked too, by name. */
  escalated(call: PublishedCall & AskedCall): Promise<void>
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

/** Who is asked by name, or the space's humans; and those to whom it was escalated. */
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

/** Whom a call asks now, or asked last. */
export function audienceOf({ approvalState }: Pick<ToolCall, 'approvalState'>): Audience {
  return approvalState === null || approvalState === 'APPROVED' ? 'answerers' : 'deciders'
}
