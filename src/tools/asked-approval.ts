import type { ApprovalPolicy } from '../agents/approval-policy.ts'
import type { JsonObject } from '../lib/json.ts'
import { type AskedApproval, type WaitLimits, waitSecondsOf } from '../rules/approvals.ts'

/** The properties of a tool that decide which approval its calls need. */
interface AskingTool {
  inputSchema: JsonObject
  versionDigest: string
  grantDigest: string | null
  visible: boolean
  /** The time limit for an external result; null if the server executes the call. */
  answerMs: number | null
}

/** Returns the approval that a call needs under the current policy of its tool. */
export function askedApproval(
  policy: ApprovalPolicy,
  { inputSchema, versionDigest, grantDigest, visible, answerMs }: AskingTool,
  limits: WaitLimits,
): AskedApproval {
  const { quorum, approverIds, expiresInSeconds, escalateAfterSeconds, escalateToIds } = policy
  return {
    quorum,
    inputSchema,
    toolDigest: versionDigest,
    grantDigest,
    hidesOutput: !visible,
    answerMs,
    patient: expiresInSeconds !== null || policy.patient === true,
    approverIds: approverIds ?? [],
    expiresInSeconds: waitSecondsOf(policy, limits),
    escalateAfterSeconds,
    escalateToIds: escalateToIds ?? [],
  }
}
