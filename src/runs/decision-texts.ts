import type { ToolCall } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import { describeDecisions } from '../rules/approvals.ts'
import { readCountedDecisions } from '../stores/decision-store.ts'

/** The decisions on a call, as the call's agent receives them. */
export interface DecisionText {
  toolCallId: string
  toolName: string
  /** The decisions in one line, with names and reasons in JSON quotes. */
  text: string
}

type DecidedCall = Pick<ToolCall, 'id' | 'toolName' | 'approval' | 'approvalState' | 'input'>

/** Describes the decisions on calls. Omits calls that needed no approval or have no decision yet. */
export async function readDecisionTexts(tx: Tx, calls: readonly DecidedCall[]): Promise<DecisionText[]> {
  const decided = calls.filter(({ approvalState }) => approvalState !== null && approvalState !== 'PENDING')
  if (decided.length === 0) return []
  const decisions = Map.groupBy(
    await readCountedDecisions(
      tx,
      decided.map(({ id }) => id),
    ),
    ({ toolCallId }) => toolCallId,
  )
  return decided.map((call) => {
    const text = describeDecisions(call, decisions.get(call.id) ?? [])
    return { toolCallId: call.id, toolName: call.toolName, text }
  })
}
