import type { Inbox } from '../agents/inbox.ts'
import type { ToolCall } from '../generated/prisma/client.ts'
import type { Json } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { ToolAnswerHooks } from '../runs/tool-answers.ts'
import { isAnsweredOutside } from '../runs/tool-calls.ts'

/** Where the answers to what a think cycle asked come in. */
export interface AsyncResults {
  /**
   * In the transaction that settles a call, by an answer or by its time: puts the result into the inbox of the persistent
   * agent that made it, whatever has become of that cycle. Null for a call of another run, which waits for it.
   */
  deliver: ToolAnswerHooks['onAsyncResult']
  /** Puts an answer into the inbox, once, that came after such a call had timed out. */
  deliverLate: ToolAnswerHooks['onLateResult']
}

export function createAsyncResults({ inbox }: { inbox: Inbox }): AsyncResults {
  async function tell(tx: Tx, call: ToolCall, result: Json, dedupKey: string) {
    const run = await tx.run.findUnique({ where: { id: call.runId } })
    if (run?.triggerType !== 'INBOX' || !isAnsweredOutside(call)) return null
    const { id: toolCallId, toolName, spaceId } = call
    const { id: parentRunId, rootId, depth } = run
    return inbox.deliver(tx, [
      {
        agentId: call.agentId,
        type: 'TOOL_RESULT',
        dedupKey,
        payload: { toolCallId, toolName, result },
        ...{ spaceId, rootId, depth, parentRunId },
      },
    ])
  }

  return {
    deliver: (tx, call) => tell(tx, call, call.output as Json, call.id),
    async deliverLate(tx, { id }, result) {
      const call = await tx.toolCall.findUnique({ where: { id } })
      if (call?.status !== 'TIMED_OUT') return null
      const told = await tell(tx, call, result, `${id}:late`)
      return told?.agentIds.has(call.agentId) ? told : null
    },
  }
}
