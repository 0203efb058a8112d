import { waitsFor } from '../rules/call-answers.ts'
import { isAdmin } from '../rules/permissions.ts'
import { errorForMembers } from '../rules/run-end.ts'
import { loadAll, loadExisting, loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import type { Context } from './context.ts'
import { RunStatusType } from './enums.ts'
import { Agent, Node, Run, RunInternals, Space, TokenUsage, ToolCall } from './refs.ts'
import type * as shapes from './shapes.ts'
import { usageOf } from './token-usage.ts'

/** Returns the calls of a run. A viewer who sees the run only as an approver of some calls gets only these calls. */
async function callsOf({ id, onlyAsked }: shapes.Run, _: object, { loaders }: Context): Promise<shapes.ToolCall[]> {
  const calls = await loaders.toolCallsOfRuns.load(id)
  if (onlyAsked !== true) return calls
  const seen = await loadAll(
    loaders.visible.toolCalls,
    calls.map((call) => call.id),
  )
  return seen.filter((call) => call !== null)
}

function errorFor(run: shapes.Run, viewer: Context['viewer']): string | null {
  if (run.error === null || isAdmin(viewer)) return run.error
  return viewer.scope === 'SERVICE' && run.label.length > 0 ? null : errorForMembers(run)
}

Run.implement({
  description: "One execution of an agent's tool loop. A think cycle is a run whose `triggerType` is INBOX.",
  interfaces: [Node],
  fields: (t) => ({
    agent: t.field({
      type: Agent,
      resolve: ({ agentId }, _, { loaders }) => loadExisting(loaders.entities, agentId),
    }),
    status: t.expose('status', { type: RunStatusType }),
    activeSpace: t.field({
      type: Space,
      nullable: true,
      resolve: ({ activeSpaceId }, _, { loaders }) => loadOptional(loaders.visible.spaces, activeSpaceId),
    }),
    stepCount: t.exposeInt('stepCount'),
    usage: t.field({ type: TokenUsage, resolve: usageOf }),
    summary: t.string({
      nullable: true,
      description:
        "The agent's closing text, which is internal and never posted to a space. Null unless the viewer is an admin or the service that triggered the run.",
      resolve: (run, _, { domain, viewer }) => (domain.visibility.runThoughts(viewer, run) ? run.summary : null),
    }),
    toolCalls: t.field({
      type: [ToolCall],
      complexity: { field: 1, multiplier: 5 },
      resolve: callsOf,
    }),
    pendingToolCalls: t.field({
      type: [ToolCall],
      description: 'The tool calls that `submitToolResult` can answer now.',
      complexity: { field: 1, multiplier: 3 },
      resolve: async (run, _, context) =>
        (await callsOf(run, _, context)).filter((call) => waitsFor(call) === 'RESULT'),
    }),
    internals: t.field({
      type: RunInternals,
      nullable: true,
      description: 'Null unless the viewer is an admin.',
      resolve: ({ id }, _, { viewer }) => (isAdmin(viewer) ? { runId: id } : null),
    }),
    streamCursor: t.field({
      type: 'StreamCursor',
      description: 'The position from which to resume `runEvents`: pass it as `after`.',
      resolve: ({ id }, _, { loaders }) => loaders.runCursors.load(id),
    }),
    queuedAt: t.expose('queuedAt', { type: 'DateTime' }),
    startedAt: t.expose('startedAt', { type: 'DateTime', nullable: true }),
    finishedAt: t.expose('finishedAt', { type: 'DateTime', nullable: true }),
  }),
})

builder.objectField(Run, 'error', (t) =>
  t.string({
    nullable: true,
    description:
      "If the model's provider failed, admins see the provider's message, and others see advice on what to do. If the run has read from a confidential space, members see only the stop reason, and services see null.",
    resolve: (run, _, { viewer }) => errorFor(run, viewer),
  }),
)

builder.queryField('run', (t) =>
  t.field({
    type: Run,
    nullable: true,
    args: { id: t.arg.id({ required: true }) },
    resolve: (_, { id }, { loaders }) => loaders.visible.runs.load(id),
  }),
)
