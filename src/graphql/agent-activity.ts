import { activeRunsOf, isActive } from './agent.ts'
import { askedOf } from './asked.ts'
import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { Agent, Run } from './refs.ts'
import type * as shapes from './shapes.ts'
import { type AgentActivityEvent, itself } from './streams.ts'

/** The fields of a run that the event contains. Other fields are read from the run's row. */
const TOLD: ReadonlySet<string> = new Set([
  '__typename',
  'id',
  'agent',
  'status',
  'triggerType',
  'triggerSummary',
  'queuedAt',
  'startedAt',
])

const AgentActivity = builder.objectRef<AgentActivityEvent>('AgentActivity').implement({
  description:
    'The complete current activity of one agent. Each event replaces the previous event about the same agent.',
  fields: (t) => ({
    at: t.expose('at', { type: 'DateTime' }),
    spaceId: t.exposeID('spaceId'),
    agent: t.field({
      type: Agent,
      resolve: ({ agentId }, _, { loaders }) => loadExisting(loaders.entities, agentId),
    }),
    active: t.boolean({
      description: 'True while a run or think cycle of the agent is RUNNING, in any space.',
      resolve: ({ agentId, activeRuns }, _, context) =>
        activeRuns?.some(({ status }) => status === 'RUNNING') ?? isActive(agentId, context),
    }),
    runs: t.field({
      type: [Run],
      description: "The agent's QUEUED, RUNNING and WAITING_TOOL runs that the viewer may see.",
      complexity: { field: 1, multiplier: 3 },
      // `activeRuns` is set only if the operation selects no run fields other than those in the event.
      resolve: ({ agentId, activeRuns }, _, context) =>
        activeRunsOf(agentId, context, activeRuns as shapes.Run[] | null),
    }),
  }),
})

builder.subscriptionField('agentActivity', (t) =>
  t.field({
    type: AgentActivity,
    description:
      'First delivers one event for every agent in the space, whether active or not, and then one event whenever the status of a run changes.',
    args: { spaceId: t.arg.id({ required: true }) },
    subscribe: (_, { spaceId }, { streams, ...watcher }, info) => {
      const asksMore = [...askedOf(info, 'runs')].some((name) => !TOLD.has(name))
      return streams.agentActivity(watcher, { spaceId, asksMore })
    },
    resolve: itself,
  }),
)
