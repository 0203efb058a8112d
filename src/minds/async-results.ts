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

/** Where the answers to what a think cycle asked come in. */
export interface AsyncResults {
  /**
   * In the transaction that settles a call, by an answer, a decision or its time: puts the result into the inbox of the persistent
   * agent that made it, whatever has become of that cycle. Null for a call of another run, which waits for it.
   */
  deliver: SettlingHooks['onAsyncResult']
  /** In the transaction of a decision: says of such a call, whose result somebody outside is yet to give, that people have agreed. */
  deliverApproval: ApprovalParts['onApproved']
  /** Puts an answer into the inbox, once, that came after such a call had timed out. */
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
    // What is told of a space which its agent has left is not of that space any more.
    const spaceId = call.status === 'CANCELED' ? null : call.spaceId
    return inbox.deliver(tx, [
      {
        agentId: call.agentId,
        type: 'TOOL_RESULT',
        dedupKey,
        payload: { toolCallId, toolName, result, ...(decisions === undefined ? {} : { decisions: decisions.text }) },
        ...{ spaceId, rootId, depth, parentRunId, askers },
        // Who answers says it where the call shows, and of what its run had been shown.
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
