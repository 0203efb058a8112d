import { loadExisting, loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { RunStatusType } from './enums.ts'
import { Agent, Node, Run, RunInternals, Space, TokenUsage, ToolCall } from './refs.ts'
import { usageOf } from './token-usage.ts'

Run.implement({
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
        "The agent's own closing words: internal, never posted. For admins and the service that triggered; null for others.",
      resolve: (run, _, { app, viewer }) => (app.visibility.runThoughts(viewer, run) ? run.summary : null),
    }),
    error: t.exposeString('error', { nullable: true }),
    toolCalls: t.field({
      type: [ToolCall],
      complexity: { field: 1, multiplier: 5 },
      resolve: ({ id }, _, { loaders }) => loaders.toolCallsOfRuns.load(id),
    }),
    pendingToolCalls: t.field({
      type: [ToolCall],
      description: 'The tool calls that `submitToolResult` can answer now.',
      complexity: { field: 1, multiplier: 3 },
      resolve: async ({ id }, _, { loaders }) =>
        (await loaders.toolCallsOfRuns.load(id)).filter(({ status }) => status === 'WAITING'),
    }),
    internals: t.field({
      type: RunInternals,
      nullable: true,
      description: 'Null for everybody but admins.',
      resolve: ({ id }, _, { viewer }) => (viewer.scope === 'ADMIN' ? { runId: id } : null),
    }),
    streamCursor: t.field({
      type: 'StreamCursor',
      description: 'Resume point for `runEvents`.',
      resolve: ({ id }, _, { loaders }) => loaders.runCursors.load(id),
    }),
    queuedAt: t.expose('queuedAt', { type: 'DateTime' }),
    startedAt: t.expose('startedAt', { type: 'DateTime', nullable: true }),
    finishedAt: t.expose('finishedAt', { type: 'DateTime', nullable: true }),
  }),
})

builder.queryField('run', (t) =>
  t.field({
    type: Run,
    nullable: true,
    args: { id: t.arg.id({ required: true }) },
    resolve: (_, { id }, { loaders }) => loaders.visible.runs.load(id),
  }),
)
