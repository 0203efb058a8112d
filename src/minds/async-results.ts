import type { Inbox } from '../agents/inbox.ts'
import { union } from '../confidence/marks.ts'
import type { ToolCall } from '../generated/prisma/client.ts'
import type { Json } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { ApprovalParts } from '../runs/approvals.ts'
import type { SettlingHooks } from '../runs/call-settling.ts'
import { decisionsOn } from '../runs/decisions-told.ts'
import type { ToolAnswerParts } from '../runs/tool-answers.ts'
import { isAnsweredOutside } from '../runs/tool-calls.ts'

/** Delivers the results of asynchronous calls of think cycles. */
export interface AsyncResults {
  /**
   * Called in the transaction that settles a call by an answer, a decision or a timeout: adds the result to the inbox
   * of the persistent agent, whatever became of the cycle. Returns null for a call of another run, which waits for its
   * result.
   */
  deliver: SettlingHooks['onAsyncResult']
  /**
   * Called in the transaction of a decision: tells the agent that a call was approved whose result is yet to come from
   * outside.
   */
  deliverApproval: ApprovalParts['onApproved']
  /** Adds an answer that arrived after the call had timed out to the inbox, once. */
  deliverLate: ToolAnswerParts['onLateResult']
}

export function createAsyncResults({ inbox }: { inbox: Inbox }): AsyncResults {
  async function tell(tx: Tx, call: ToolCall, result: Json, dedupKey: string) {
    const run = await tx.run.findUnique({ where: { id: call.runId } })
    const isAsynchronous = isAnsweredOutside(call) || call.approvalState !== null
    if (run?.triggerType !== 'INBOX' || !isAsynchronous) return null
    const { id: toolCallId, toolName } = call
    const { id: parentRunId, rootId, depth, askers } = run
    const [decisions] = await decisionsOn(tx, [call])
    // The result of a call canceled because the agent left the space no longer belongs to that space.
    const spaceId = call.status === 'CANCELED' ? null : call.spaceId
    return inbox.deliver(tx, [
      {
        agentId: call.agentId,
        type: 'TOOL_RESULT',
        dedupKey,
        payload: { toolCallId, toolName, result, ...(decisions === undefined ? {} : { decisions: decisions.text }) },
        ...{ spaceId, rootId, depth, parentRunId, askers },
        // The answer comes from the space where the call is visible, and from the sources of its run.
        places: union(call.places, call.spaceId === null ? [] : [call.spaceId]),
        label: call.label,
      },
    ])
  }

  return {
    deliver: (tx, call) => tell(tx, call, call.output as Json, call.id),
    deliverApproval: (tx, call) =>
      call.status === 'WAITING'
        ? tell(tx, call, { status: 'approved', toolCallId: call.id }, `${call.id}:approved`)
        : null,
    async deliverLate(tx, { id }, result) {
      const call = await tx.toolCall.findUnique({ where: { id } })
      if (call?.status !== 'TIMED_OUT' || call.approvalState === 'EXPIRED') return null
      const told = await tell(tx, call, result, `${id}:late`)
      return told?.agentIds.has(call.agentId) ? told : null
    },
  }
}
