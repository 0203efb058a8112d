import type { Inbox } from '../agents/inbox.ts'
import type { Json } from '../lib/json.ts'
import { isAnsweredOutside, type ToolCallHooks } from '../runs/tool-calls.ts'

/** Where the answers to what a think cycle asked come in. */
export interface AsyncResults {
  /**
   * In the transaction that settles a call, by an answer or by its time: puts the result into the inbox of the persistent
   * agent that made it, whatever has become of that cycle. Null for a call of another run, which waits for it.
   */
  deliver: ToolCallHooks['onAsyncResult']
}

export function createAsyncResults({ inbox }: { inbox: Inbox }): AsyncResults {
  return {
    async deliver(tx, call) {
      const run = await tx.run.findUnique({ where: { id: call.runId } })
      if (run?.triggerType !== 'INBOX' || !isAnsweredOutside(call)) return null
      const { id: toolCallId, toolName, spaceId, output } = call
      return inbox.deliver(tx, [
        {
          agentId: call.agentId,
          type: 'TOOL_RESULT',
          dedupKey: toolCallId,
          payload: { toolCallId, toolName, result: output as Json },
          spaceId,
          rootId: run.rootId,
          depth: run.depth,
          parentRunId: run.id,
        },
      ])
    },
  }
}
