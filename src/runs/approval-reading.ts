import type { ToolCall } from '../generated/prisma/client.ts'
import type { Platform } from '../platform/platform.ts'
import { type ApprovalStanding, tally } from '../rules/approvals.ts'
import { readDecidersOfCalls, readDecisionsOfCalls } from '../stores/decision-store.ts'

/** Reads approvals. */
export interface ApprovalReading {
  /** Returns the approval states of those calls that needed approval, by call. */
  standingOf(calls: readonly ToolCall[]): Promise<Map<string, ApprovalStanding>>
}

export function createApprovalReading({ db }: Pick<Platform, 'db'>): ApprovalReading {
  return {
    async standingOf(given) {
      const calls = given.filter(({ approvalState }) => approvalState !== null)
      if (calls.length === 0) return new Map()
      const ids = calls.map(({ id }) => id)
      const [deciders, decisions] = await Promise.all([
        readDecidersOfCalls(db.prisma, ids),
        readDecisionsOfCalls(db.prisma, ids),
      ])
      const decidersByCall = Map.groupBy(deciders, ({ callId }) => callId)
      const decisionsByCall = Map.groupBy(decisions, ({ toolCallId }) => toolCallId)
      return new Map(
        calls.map((call) => {
          const deciderIds = (decidersByCall.get(call.id) ?? []).map(({ id }) => id)
          return [call.id, tally(call, deciderIds, decisionsByCall.get(call.id) ?? [])]
        }),
      )
    },
  }
}
