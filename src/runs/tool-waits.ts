import type { Platform } from '../platform/platform.ts'
import { waitNoted } from './call-notifications.ts'
import { createCallPublisher } from './call-publisher.ts'
import { holdOf } from './hold.ts'
import type { Claim } from './lifecycle.ts'
import { type NewWait, waiting } from './tool-calls.ts'

/** Calls that wait for somebody outside their run without being shown. */
export interface ToolWaits {
  /**
   * Lets a call wait for its result, or for the decision of named approvers, for at most `waitMs`.
   * @throws RunLostError
   */
  begin(claim: Claim, toolCallId: string, wait: NewWait): Promise<void>
}

export function createToolWaits(platform: Platform): ToolWaits {
  const { db } = platform
  const callPublisher = createCallPublisher(platform)

  return {
    async begin(claim, toolCallId, wait) {
      const changes = { call: waiting(toolCallId, wait), notice: waitNoted('call') }
      await holdOf(db, claim).write(changes, { returning: 'call' })
      const call = { id: toolCallId, agentId: claim.run.agentId, spaceId: null, ...wait.approval }
      await callPublisher.waits({ ...call, escalatedAt: null }, wait.approval === undefined ? 'answerers' : 'deciders')
    },
  }
}
