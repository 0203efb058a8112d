import { OF_A_SPACE_LEFT } from '../../agents/inbox-source.ts'
import type { Discretion } from '../../confidence/discretion.ts'
import type { Run } from '../../generated/prisma/client.ts'
import type { RunProgress, RunReport } from '../../runs/run-progress.ts'
import type { Runs } from '../../runs/runs.ts'
import type { Tool } from '../tool.ts'

const MOST = 50

/** Lists the agent's other active runs, with their progress. */
export function getMyRunsTool(
  runs: Pick<Runs, 'activeOf'>,
  progress: RunProgress,
  { isMember, discretion }: { isMember(spaceId: string): boolean; discretion: Pick<Discretion, 'toCompare'> },
): Tool {
  const isOfMember = ({ triggerSpaceId }: Run) => triggerSpaceId === null || isMember(triggerSpaceId)
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
      const isFromThere = ({ triggerSpaceId: fromId }: Run) => triggerSpaceId === undefined || fromId === triggerSpaceId
      const found = active
        .filter(({ id }) => id !== run.claim.run.id)
        .filter((other) => status === 'all' || other.status.toLowerCase() === status)
        .filter(isFromThere)
        .toReversed()
        .slice(0, MOST)
      const reports = await progress.ofRuns(found)
      const told = await discretion.toCompare(run.claim.run, idsOf(found))
      // For a run of other requesters, its space is confidential too.
      const others = triggerSpaceId === undefined ? found : found.filter(({ id }) => told.has(id))
      return {
        currentRunId: run.claim.run.id,
        otherActiveRuns: others.map((other) =>
          told.has(other.id) ? entryOf(other, reports.get(other.id), isOfMember) : bareEntryOf(other),
        ),
      }
    },
  }
}

const idsOf = (runs: readonly Run[]) => runs.map(({ id }) => id)

/** The entry of a run that works for other requesters. */
const bareEntryOf = ({ id: runId, status, startedAt }: Run) => ({
  ...{ runId, status: status.toLowerCase(), startedAt: startedAt?.toISOString() ?? null },
})

function entryOf(run: Run, report: RunReport | undefined, isMember: (run: Run) => boolean) {
  return {
    runId: run.id,
    triggerType: run.triggerType.toLowerCase(),
    triggerSource: isMember(run) ? (report?.triggerSource ?? run.triggerSummary) : OF_A_SPACE_LEFT,
    about: isMember(run) ? (report?.about ?? run.triggerSummary) : OF_A_SPACE_LEFT,
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
