import type { Run } from '../generated/prisma/client.ts'
import { type AgentSignal, agentChannel, type RunNews } from '../realtime/topics.ts'

/** The signal that a run's status is another one now, and where it goes. */
export function changeOf(run: Run): [channel: string, signal: AgentSignal] {
  return [agentChannel(run.agentId), { type: 'run-changed', run: newsOf(run) }]
}

function newsOf(run: Run): RunNews {
  const { id, agentId, status, attempt, triggerType, triggerName, triggerSpaceId, triggerSenderId } = run
  const { triggerServiceId, triggerSummary, queuedAt, startedAt } = run
  return {
    ...{ id, agentId, status, attempt, triggerType, triggerName, triggerSpaceId, triggerSenderId },
    ...{ triggerServiceId, triggerSummary },
    queuedAt: queuedAt.toISOString(),
    startedAt: startedAt?.toISOString() ?? null,
  }
}
