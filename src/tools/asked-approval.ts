import type { ApprovalPolicy } from '../agents/approval-policy.ts'
import type { JsonObject } from '../lib/json.ts'
import type { AskedApproval } from '../runs/approval.ts'

/** The properties of a tool that determine the approval of its calls. */
interface AskingTool {
  inputSchema: JsonObject
  versionDigest: string
  visible: boolean
  /** The time limit for a result from outside; null if the server executes the call. */
  answerMs: number | null
}

/** Returns the approval that a call needs, by the current policy of its tool. */
export function askedApproval(
  policy: ApprovalPolicy,
  { inputSchema, versionDigest, visible, answerMs }: AskingTool,
  { toolWaitSeconds }: { toolWaitSeconds: number },
): AskedApproval {
  const { quorum, approverIds, expiresInSeconds, escalateAfterSeconds, escalateToIds } = policy
  return {
    quorum,
    inputSchema,
    toolDigest: versionDigest,
    hidesOutput: !visible,
    answerMs,
    patient: expiresInSeconds !== null,
    approverIds: approverIds ?? [],
    expiresInSeconds: expiresInSeconds ?? toolWaitSeconds,
    escalateAfterSeconds,
    escalateToIds: escalateToIds ?? [],
  }
}
