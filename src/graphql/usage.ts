import { usdOf } from '../lib/model-cost.ts'
import { isAdmin } from '../rules/permissions.ts'
import { loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { Agent, Human, Message, Run, Space, TokenUsage } from './refs.ts'
import type * as shapes from './shapes.ts'
import { usageOf } from './token-usage.ts'

const UsageDimension = builder.enumType('UsageDimension', {
  values: {
    DAY: {},
    AGENT: {},
    SPACE: {},
    MODEL: {},
    HUMAN: {
      description:
        'The human at the root of the usage: the human whose message started the runs, or whose message led an agent to create the plan. Null for plans of admins, calls of services, and usage recorded before the server counted by human.',
    },
  } as const,
})

const UsageRow = builder.objectRef<shapes.UsageRow>('UsageRow').implement({
  fields: (t) => ({
    day: t.expose('day', { type: 'DateTime', nullable: true }),
    agent: t.field({
      type: Agent,
      nullable: true,
      resolve: ({ agentId }, _, { loaders }) => loadOptional(loaders.entities, agentId),
    }),
    space: t.field({
      type: Space,
      nullable: true,
      resolve: ({ spaceId }, _, { loaders }) => loadOptional(loaders.spaces, spaceId),
    }),
    model: t.exposeString('model', { nullable: true }),
    human: t.field({
      type: Human,
      nullable: true,
      description: 'Null unless `by` contains HUMAN.',
      resolve: ({ humanId }, _, { loaders }) => loadOptional(loaders.entities, humanId),
    }),
    runs: t.exposeInt('runs'),
    skippedCycles: t.exposeInt('skippedCycles', {
      description:
        'The number of think cycles that only called the skip tool. Their tokens and cost are included in this row; `runs` does not count them.',
    }),
    inputTokens: t.exposeFloat('inputTokens'),
    cachedInputTokens: t.exposeFloat('cachedInputTokens'),
    outputTokens: t.exposeFloat('outputTokens'),
    costUsd: t.float({ nullable: true, resolve: ({ costNanos }) => usdOf(costNanos) }),
  }),
})

builder.queryField('usage', (t) =>
  t.field({
    type: [UsageRow],
    nullable: true,
    description:
      'Usage on the UTC days with `from` ≤ day < `to`, grouped by the dimensions in `by`, which may be empty. A result of more than 10,000 rows causes a BAD_USER_INPUT error. Null unless the viewer is an admin.',
    complexity: { field: 10, multiplier: 20 },
    args: {
      from: t.arg({ type: 'DateTime', required: true }),
      to: t.arg({ type: 'DateTime', required: true }),
      by: t.arg({ type: [UsageDimension], required: true }),
      agentId: t.arg.id(),
      spaceId: t.arg.id(),
    },
    resolve: (_, filter, { domain, viewer }) => (isAdmin(viewer) ? domain.usage.query(filter) : null),
  }),
)

const NOTHING_YET = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, estimated: false, costNanos: 0 }

function usageOfRoot(used: shapes.RootUsage | null): shapes.Usage {
  const { estimated, ...usage } = used ?? NOTHING_YET
  return usageOf({ ...usage, usageEstimated: estimated })
}

builder.objectField(Message, 'rootUsage', (t) =>
  t.field({
    type: TokenUsage,
    nullable: true,
    description:
      "Usage so far of all runs and think cycles that this message started, directly or indirectly. Everyone who sees the message may read the totals. MessageUpdated reports changes at most every 2 s, and once more when the last run has ended. Null for an agent's message.",
    resolve: async ({ id, rootId }, _, { loaders }) =>
      rootId === id ? usageOfRoot(await loaders.rootUsages.load(id)) : null,
  }),
)

builder.objectField(Run, 'rootUsage', (t) =>
  t.field({
    type: TokenUsage,
    description:
      'Usage so far of all runs and think cycles that the root of this run started, directly or indirectly. Everyone who sees the run may read the totals.',
    resolve: async ({ rootId }, _, { loaders }) => usageOfRoot(await loaders.rootUsages.load(rootId)),
  }),
)
