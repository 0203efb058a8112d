import type { Run } from '../../generated/prisma/client.ts'
import type { RunProgress, RunReport } from '../../runs/run-progress.ts'
import type { Runs } from '../../runs/runs.ts'
import type { Tool } from '../tool.ts'

const MOST = 50

/** The agent's other runs that are under way, with what each has done so far. */
export function getMyRunsTool(runs: Pick<Runs, 'activeOf'>, progress: RunProgress): Tool {
  return {
    name: 'getMyRuns',
    description:
      'See which other runs of yours are under way, what woke each and how far it has come. Look before you begin something that you may be doing already, or to find out that you wait for yourself.',
    inputSchema: {
      type: 'object',
      properties: {
        status: {
          type: 'string',
          enum: ['running', 'waiting_tool', 'queued', 'all'],
          description: "Only runs of this status. Default 'all': whatever is under way.",
          default: 'all',
        },
        triggerSpaceId: { type: 'string', description: 'Only runs that this space set off.' },
      },
    },
    presence: { type: 'hidden' },
    execution: null,
    async execute({ status = 'all', triggerSpaceId }, { run }) {
      const active = (await runs.activeOf([run.agent.id])).get(run.agent.id) ?? []
      const others = active
        .filter(({ id }) => id !== run.claim.run.id)
        .filter((other) => status === 'all' || other.status.toLowerCase() === status)
        .filter((other) => triggerSpaceId === undefined || other.triggerSpaceId === triggerSpaceId)
        .toReversed()
        .slice(0, MOST)
      const reports = await progress.ofRuns(others)
      return {
        currentRunId: run.claim.run.id,
        otherActiveRuns: others.map((other) => entryOf(other, reports.get(other.id))),
      }
    },
  }
}

function entryOf(run: Run, report: RunReport | undefined) {
  return {
    runId: run.id,
    triggerType: run.triggerType.toLowerCase(),
    triggerSource: report?.triggerSource ?? run.triggerSummary,
    about: report?.about ?? run.triggerSummary,
    status: run.status.toLowerCase(),
    startedAt: run.startedAt?.toISOString() ?? null,
    progress: {
      toolsCalled: report?.toolsCalled ?? [],
      textGenerated: report?.textGenerated ?? null,
      reasoning: report?.reasoning ?? null,
      ...(report?.said == null ? {} : { said: report.said }),
    },
  }
}
