import type { Inbox } from '../../agents/inbox.ts'
import { OF_A_SPACE_LEFT, sourceNameOf } from '../../agents/inbox-source.ts'
import type { Discretion } from '../../confidence/discretion.ts'
import type { InboxEvent, Run, RunStatus } from '../../generated/prisma/client.ts'
import type { RunProgress } from '../../runs/run-progress.ts'
import type { Runs } from '../../runs/runs.ts'
import type { Tool } from '../tool.ts'

const STATUSES = ['queued', 'running', 'waiting_tool', 'completed', 'failed', 'canceled']
const MOST = 50
/** The maximum number of inbox events named for a think cycle. */
const MOST_NAMED = 10
interface GetMyRunsParts {
  progress: Pick<RunProgress, 'lastWords'>
  inbox: Pick<Inbox, 'takenBy'>
  discretion: Pick<Discretion, 'toCompare'>
  /** Whether the agent belongs to the space. */
  isMember(spaceId: string): boolean
}

/** Lists the agent's own runs: the active ones, or those of one status, past ones included. */
export function getMyRunsTool(
  runs: Pick<Runs, 'ofAgent' | 'activeOf'>,
  { progress, inbox, isMember, discretion }: GetMyRunsParts,
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
      const cycles = shown.flatMap(({ id, triggerType }) => (triggerType === 'INBOX' ? [id] : []))
      const [words, taken] = await Promise.all([progress.lastWords(shown), inbox.takenBy(cycles, MOST_NAMED + 1)])
      const told = await discretion.toCompare(
        run.claim.run,
        shown.map(({ id }) => id),
      )
      const aboutOf = (other: Run) => summaryOf(other, taken.get(other.id) ?? [], isMember)
      return {
        runs: shown.map((other) =>
          told.has(other.id) ? entryOf(other, aboutOf(other), words.get(other.id)) : bareEntryOf(other),
        ),
        totalActive: active.length,
      }
    },
  }
}

/**
 * Describes what woke a run: for a think cycle the sources of its inbox events. Spaces that the agent has
 * left are not named.
 */
function summaryOf(run: Run, taken: InboxEvent[], isMember: (spaceId: string) => boolean): string {
  const { triggerType, triggerSpaceId, triggerSummary } = run
  if (triggerType !== 'INBOX')
    return triggerSpaceId === null || isMember(triggerSpaceId) ? triggerSummary : OF_A_SPACE_LEFT
  const names = taken
    .slice(0, MOST_NAMED)
    .map((event) => (event.spaceId === null || isMember(event.spaceId) ? sourceNameOf(event) : OF_A_SPACE_LEFT))
  if (taken.length > MOST_NAMED) names.push('…')
  return names.length === 0 ? triggerSummary : `${triggerSummary}: ${[...new Set(names)].join('; ')}`
}

/** The entry of a run that works for other requesters. */
const bareEntryOf = (run: Run) => ({
  runId: run.id,
  status: run.status.toLowerCase(),
  startedAt: run.startedAt?.toISOString() ?? null,
})

function entryOf(run: Run, triggerSummary: string, said: string | undefined) {
  const ended =
    run.finishedAt === null
      ? {}
      : { finishedAt: run.finishedAt.toISOString(), summary: run.summary, ...(run.error ? { error: run.error } : {}) }
  return {
    runId: run.id,
    status: run.status.toLowerCase(),
    triggerType: run.triggerType.toLowerCase(),
    triggerSummary,
    activeSpaceId: run.activeSpaceId,
    startedAt: run.startedAt?.toISOString() ?? null,
    ...(said === undefined ? {} : { said }),
    ...ended,
  }
}
