import type { Run, RunStatus } from '../../generated/prisma/client.ts'
import type { RunProgress } from '../../runs/run-progress.ts'
import type { Runs } from '../../runs/runs.ts'
import type { Tool } from '../tool.ts'

const STATUSES = ['queued', 'running', 'waiting_tool', 'completed', 'failed', 'canceled']
const MOST = 50

/** The agent's own runs: those under way, or those of one status, past ones included. */
export function getMyRunsTool(
  runs: Pick<Runs, 'ofAgent' | 'activeOf'>,
  progress: Pick<RunProgress, 'lastWords'>,
): Tool {
  return {
    name: 'get_my_runs',
    description:
      'Look at your own runs, other than this one: all that are under way, or those of one status, with what they were about and how they ended. Use it before you begin something that you may be doing, or have done, already.',
    inputSchema: {
      type: 'object',
      properties: {
        status: { type: 'string', enum: STATUSES, description: 'Only runs of this status. Omit for all active runs.' },
        limit: { type: 'number', minimum: 1, description: 'Most runs to return. Default 10.' },
      },
    },
    presence: { type: 'hidden' },
    execution: null,
    async execute({ status, limit = 10 }, { run }) {
      const statuses = typeof status === 'string' ? [status.toUpperCase() as RunStatus] : null
      const active = (await runs.activeOf([run.agent.id])).get(run.agent.id) ?? []
      const found = await runs.ofAgent(run.agent.id, statuses, Math.min(Math.trunc(Number(limit)), MOST) + 1)
      const shown = found.filter(({ id }) => id !== run.claim.run.id).slice(0, Number(limit))
      const words = await progress.lastWords(shown)
      return {
        runs: shown.map((other) => entryOf(other, words.get(other.id))),
        totalActive: active.length,
      }
    },
  }
}

function entryOf(run: Run, said: string | undefined) {
  const ended =
    run.finishedAt === null
      ? {}
      : { finishedAt: run.finishedAt.toISOString(), summary: run.summary, ...(run.error ? { error: run.error } : {}) }
  return {
    runId: run.id,
    status: run.status.toLowerCase(),
    triggerType: run.triggerType.toLowerCase(),
    triggerSummary: run.triggerSummary,
    activeSpaceId: run.activeSpaceId,
    startedAt: run.startedAt?.toISOString() ?? null,
    ...(said === undefined ? {} : { said }),
    ...ended,
  }
}
