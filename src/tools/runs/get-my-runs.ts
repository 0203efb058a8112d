import { OF_A_SPACE_LEFT, sourceNameOf } from '../../agents/inbox-source.ts'
import type { InboxEvent, Run, RunStatus } from '../../generated/prisma/client.ts'
import type { RunReport } from '../../runs/run-progress.ts'
import { defineTool, isMemberOf, type ToolBody, type ToolSetting } from '../define-tool.ts'

/**
 * Lists the agent's own runs, with the details that the calling run may see. With ACTIVE_SPACE, the tool can also
 * list past runs. With SPACE_TOOLS, it returns the progress of the other active runs.
 */
export const getMyRuns = defineTool({
  names: { snake: 'get_my_runs', camel: 'getMyRuns' },
  create: (setting) => (setting.place === 'active' ? activeOrPastRuns(setting) : progressOfOthers(setting)),
})

const MOST = 50
/** The maximum number of inbox events that the description of a think cycle lists. */
const MOST_NAMED = 10
const STATUSES = ['queued', 'running', 'waiting_tool', 'completed', 'failed', 'canceled']

function activeOrPastRuns(setting: ToolSetting): ToolBody {
  const { discretion, inbox, runProgress, runs } = setting.parts
  return {
    description:
      'List your own runs except this one: all active runs, or the runs of one status, with their subject and outcome. Use this tool before you begin something that you may already be doing, or have already done.',
    inputSchema: {
      type: 'object',
      properties: {
        status: { type: 'string', enum: STATUSES, description: 'Only runs of this status. Omit for all active runs.' },
        limit: { type: 'number', minimum: 1, description: 'The maximum number of runs to return. Default 10.' },
      },
    },
    async execute({ status, limit = 10 }, { context: { run } }) {
      const statuses = typeof status === 'string' ? [status.toUpperCase() as RunStatus] : null
      const active = (await runs.activeOf([run.agentId])).get(run.agentId) ?? []
      const found = await runs.ofAgent(run.agentId, statuses, Math.min(Math.trunc(Number(limit)), MOST) + 1)
      const shown = found.filter(({ id }) => id !== run.id).slice(0, Number(limit))
      const cycles = shown.flatMap(({ id, triggerType }) => (triggerType === 'INBOX' ? [id] : []))
      const [words, taken] = await Promise.all([runProgress.lastWords(shown), inbox.takenBy(cycles, MOST_NAMED + 1)])
      const known = await discretion.toCompare(run, idsOf(shown))
      const entries = shown.map((other) => {
        if (!known.has(other.id)) return bareEntryOf(other)
        return runEntryOf(other, aboutRun(setting, other, taken.get(other.id) ?? []), words.get(other.id))
      })
      return { output: { runs: entries, totalActive: active.length } }
    },
  }
}

function progressOfOthers(setting: ToolSetting): ToolBody {
  const { discretion, runProgress, runs } = setting.parts
  return {
    description:
      'List your other active runs, what woke each of them, and their progress. Check this before you begin something that you may already be doing, or to find out whether you wait for yourself.',
    inputSchema: {
      type: 'object',
      properties: {
        status: {
          type: 'string',
          enum: ['running', 'waiting_tool', 'queued', 'all'],
          description: "Only runs of this status. Default 'all': all active runs.",
          default: 'all',
        },
        triggerSpaceId: { type: 'string', description: 'Only runs that this space triggered.' },
      },
    },
    async execute({ status = 'all', triggerSpaceId }, { context: { run } }) {
      const active = (await runs.activeOf([run.agentId])).get(run.agentId) ?? []
      const isFromThere = ({ triggerSpaceId: fromId }: Run) => triggerSpaceId === undefined || fromId === triggerSpaceId
      const found = active
        .filter(({ id }) => id !== run.id)
        .filter((other) => status === 'all' || other.status.toLowerCase() === status)
        .filter(isFromThere)
        .toReversed()
        .slice(0, MOST)
      const reports = await runProgress.ofRuns(found)
      const known = await discretion.toCompare(run, idsOf(found))
      // If a run has other requesters, even its triggering space is confidential.
      const others = triggerSpaceId === undefined ? found : found.filter(({ id }) => known.has(id))
      const otherActiveRuns = others.map((other) =>
        known.has(other.id) ? progressEntryOf(setting, other, reports.get(other.id)) : bareEntryOf(other),
      )
      return { output: { currentRunId: run.id, otherActiveRuns } }
    },
  }
}

const idsOf = (runs: readonly Run[]) => runs.map(({ id }) => id)

/** Returns the entry for a run with other requesters. It contains no content. */
const bareEntryOf = ({ id: runId, status, startedAt }: Run) => ({
  runId,
  status: status.toLowerCase(),
  startedAt: startedAt?.toISOString() ?? null,
})

/**
 * Describes the trigger of a run or, for a think cycle, the sources of its inbox events. Does not name spaces that
 * the agent has left.
 */
function aboutRun(setting: ToolSetting, run: Run, taken: InboxEvent[]): string {
  const { triggerType, triggerSpaceId, triggerSummary } = run
  if (triggerType !== 'INBOX') return isMemberOf(setting, triggerSpaceId) ? triggerSummary : OF_A_SPACE_LEFT
  const names = taken
    .slice(0, MOST_NAMED)
    .map((event) => (isMemberOf(setting, event.spaceId) ? sourceNameOf(event) : OF_A_SPACE_LEFT))
  if (taken.length > MOST_NAMED) names.push('…')
  return names.length === 0 ? triggerSummary : `${triggerSummary}: ${[...new Set(names)].join('; ')}`
}

function runEntryOf(run: Run, triggerSummary: string, said: string | undefined) {
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

function progressEntryOf(setting: ToolSetting, run: Run, report: RunReport | undefined) {
  const isMember = isMemberOf(setting, run.triggerSpaceId)
  return {
    runId: run.id,
    triggerType: run.triggerType.toLowerCase(),
    triggerSource: isMember ? (report?.triggerSource ?? run.triggerSummary) : OF_A_SPACE_LEFT,
    about: isMember ? (report?.about ?? run.triggerSummary) : OF_A_SPACE_LEFT,
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
