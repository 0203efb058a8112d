import { ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { loadExisting, loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { renewed } from './context.ts'
import { RunStatusType } from './enums.ts'
import { Agent, Node, Run, RunInternals, Space, TokenUsage, ToolCall } from './refs.ts'
import type * as shapes from './shapes.ts'
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

const StopRunInput = builder.inputType('StopRunInput', {
  fields: (t) => ({
    runId: t.id({ required: true }),
    cascade: t.boolean({
      required: true,
      defaultValue: false,
      description: 'Also stop every run, in any space, that this one set off.',
    }),
  }),
})

const StopRunPayload = builder.objectRef<{ run: shapes.Run }>('StopRunPayload').implement({
  fields: (t) => ({ run: t.expose('run', { type: Run }) }),
})

builder.mutationField('stopRun', (t) =>
  t.field({
    type: StopRunPayload,
    errors: {
      types: [ForbiddenError, NotFoundError, ConflictError],
      union: { description: 'ConflictError: the run had already finished.' },
    },
    args: { input: t.arg({ type: StopRunInput, required: true }) },
    async resolve(_, { input }, context) {
      const { app, viewer, loaders } = renewed(context)
      const [run] = await loaders.seenRuns([await app.control.stopRun(viewer, input)])
      return { run: run! }
    },
  }),
)
