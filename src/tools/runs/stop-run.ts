import type { Tx } from '../../platform/db.ts'
import { noteDeed } from '../../stores/audit-store.ts'
import { defineTool } from '../define-tool.ts'
import { ToolFailure } from '../tool.ts'

/** Cancels another run of the same agent. */
export const stopRun = defineTool({
  names: { snake: 'stop_run' },
  create: ({ parts: { runs, lifecycle } }) => ({
    description:
      'Cancel one of your own active runs by its id, when its work is outdated or less urgent. You cannot cancel this run itself.',
    inputSchema: {
      type: 'object',
      properties: {
        runId: { type: 'string', description: 'Id of the run to cancel: one of your own, see get_my_runs.' },
      },
      required: ['runId'],
    },
    async execute({ runId }, { context: { run }, callId }) {
      const id = String(runId)
      if (id === run.id)
        throw new ToolFailure('BAD_INPUT', 'This run cannot stop itself: end it by calling no more tools.')
      const [other] = await runs.getMany([id])
      if (other == null || other.agentId !== run.agentId) {
        throw new ToolFailure('NOT_FOUND', 'You have no run with that id: get_my_runs lists yours.')
      }
      // The call may be repeated after a crash, and its first attempt may already have stopped the run.
      const detail = { runId: run.id, toolCallId: callId }
      const deed = { actorId: run.agentId, serviceName: null, action: 'tool:stop_run', targetId: id, detail }
      const alongside = (tx: Tx) => noteDeed(tx, deed)
      const [stopped] = await lifecycle.stop(id, { cascade: false, byId: run.agentId, alongside })
      const ended = stopped ?? (await runs.getMany([id]))[0]
      if (ended?.status !== 'CANCELED') throw new ToolFailure('CONFLICT', 'That run had already finished.')
      return { output: { success: true, runId: id, status: 'canceled' } }
    },
  }),
})
