import type { Platform } from '../platform/platform.ts'
import { ADMIN_CHANNEL, agentChannel, spaceChannel } from '../realtime/topics.ts'

/** The tool call that news are of. */
export interface CallInNews {
  id: string
  agentId: string
  /** Where it shows; null where it shows nowhere. */
  spaceId: string | null
}

/** Tells who may answer a call, once that is committed: the members of the space that it shows in, its agent's services, and admins. */
export interface CallNews {
  /** It waits for an answer now. */
  waits(call: CallInNews): Promise<void>
  /** It waits no longer: it was answered, its time is up, or its run is over. */
  settled(call: CallInNews): Promise<void>
}

export function createCallNews({ signals }: Pick<Platform, 'signals'>): CallNews {
  async function tell(type: 'tool-waiting' | 'tool-settled', { id, agentId, spaceId }: CallInNews): Promise<void> {
    const news = { type, toolCallId: id }
    await Promise.all([
      ...(spaceId === null ? [] : [signals.publish(spaceChannel(spaceId), news)]),
      signals.publish(agentChannel(agentId), news),
      signals.publish(ADMIN_CHANNEL, news),
    ])
  }

  return {
    waits: (call) => tell('tool-waiting', call),
    settled: (call) => tell('tool-settled', call),
  }
}
