import type { ApprovalPolicy } from '../agents/approval-policy.ts'
import type { JsonObject } from '../lib/json.ts'
import type { AskedApproval } from '../runs/approval.ts'

/** What of a tool its calls' approval goes by. */
interface AskingTool {
  inputSchema: JsonObject
  versionDigest: string
  visible: boolean
  /** How long somebody outside has for its result; null where the server carries it out. */
  answerMs: number | null
}

/** What a call asks for, by the policy of its tool at that moment. */
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
