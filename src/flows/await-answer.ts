import type { Platform } from '../platform/platform.ts'
import { createCallPublisher } from '../runs/call-publisher.ts'
import type { Claim } from '../runs/claiming.ts'
import { holdOf } from '../runs/hold.ts'
import { waitNoticesSql } from '../stores/call-notices.ts'
import { awaitAnswerSql, type NewWait } from '../stores/call-store.ts'
import { notifyOfDecisionsSql } from '../stores/notice-store.ts'

/** Makes tool calls wait for an answer from outside their run. Used for calls that no message in a space shows. */
export interface AwaitAnswer {
  /**
   * Makes a call wait for its result, or for the decision of named approvers, for at most `waitMs` milliseconds.
   * @throws RunLostError
   */
  awaitAnswer(claim: Claim, toolCallId: string, wait: NewWait): Promise<void>
}

export function createAwaitAnswer(platform: Platform): AwaitAnswer {
  const { db } = platform
  const callPublisher = createCallPublisher(platform)

  return {
    async awaitAnswer(claim, toolCallId, wait) {
      const changes = {
        call: awaitAnswerSql(toolCallId, wait),
        notice: waitNoticesSql('call'),
        ...(wait.approval === undefined ? {} : { decisions: notifyOfDecisionsSql('call') }),
      }
      await holdOf(db, claim).write(changes, { returning: 'call' })
      const call = { id: toolCallId, agentId: claim.run.agentId, spaceId: null, ...wait.approval }
      await callPublisher.waits({ ...call, escalatedAt: null }, wait.approval === undefined ? 'answerers' : 'deciders')
    },
  }
}
