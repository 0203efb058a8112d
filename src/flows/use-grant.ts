import { createGrantPublisher } from '../agents/grant-publisher.ts'
import { marksOf } from '../confidentiality/marks.ts'
import type { JsonObject } from '../lib/json.ts'
import { checkJson } from '../lib/schema-checks.ts'
import type { Platform } from '../platform/platform.ts'
import type { AskedApproval } from '../rules/approvals.ts'
import { requesterOf } from '../rules/requester.ts'
import { amountOf } from '../rules/standing-grants.ts'
import type { Claim } from '../runs/claiming.ts'
import { holdOf } from '../runs/hold.ts'
import { letThroughSql } from '../stores/call-store.ts'
import { readActiveGrants, useGrantSql } from '../stores/grant-store.ts'

/** A call that needs approval by people unless a grant covers the call. */
export interface AskingCall {
  id: string
  toolName: string
  input: JsonObject
  approval: AskedApproval
  /** The space whose members would be asked for approval; null if the policy names the approvers. */
  spaceId: string | null
}

/** Checks whether people have approved a call in advance. */
export interface UseGrant {
  /**
   * Finds a standing grant that covers the call, and counts the call towards its limits. Counts each call once,
   * before its execution, so that failed calls count too.
   * @returns false if no grant covers the call
   * @throws RunLostError
   */
  useGrant(claim: Claim, call: AskingCall): Promise<boolean>
}

export function createUseGrant(platform: Platform): UseGrant {
  const { db } = platform
  const publisher = createGrantPublisher(platform)

  return {
    async useGrant(claim, { id: toolCallId, toolName, input, approval, spaceId }) {
      const { grantDigest } = approval
      if (grantDigest == null) return false
      const place = { agentId: claim.run.agentId, toolName, spaceId }
      for (const grant of await readActiveGrants(db.prisma, place, grantDigest)) {
        const amount = amountOf(grant, input)
        if (amount === null) continue
        const schema = grant.inputSchema as JsonObject | null
        if (schema !== null && (await checkJson(schema, input, requesterOf(claim.run))) !== null) continue
        const changes = {
          used: useGrantSql(grant.id, { amount, marks: marksOf(claim.run), approval }),
          call: letThroughSql(toolCallId, approval),
        }
        const row = await holdOf(db, claim).write(changes, { returning: 'call' })
        if (row === null) continue
        await publisher.changed(grant)
        return true
      }
      return false
    },
  }
}
