import { activeRunsOf, isActive } from './agent.ts'
import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { Agent, Run } from './refs.ts'
import { type AgentActivityEvent, itself } from './streams.ts'

const AgentActivity = builder.objectRef<AgentActivityEvent>('AgentActivity').implement({
  description: 'The whole state of one agent.',
  fields: (t) => ({
    at: t.expose('at', { type: 'DateTime' }),
    spaceId: t.exposeID('spaceId'),
    agent: t.field({
      type: Agent,
      resolve: ({ agentId }, _, { loaders }) => loadExisting(loaders.entities, agentId),
    }),
    active: t.boolean({
      description: 'True while one of its runs or cycles executes, in whichever space.',
      resolve: ({ agentId }, _, context) => isActive(agentId, context),
    }),
    runs: t.field({
      type: [Run],
      description: 'QUEUED, RUNNING and WAITING_TOOL ones that the viewer may see.',
      complexity: { field: 1, multiplier: 3 },
      resolve: ({ agentId }, _, context) => activeRunsOf(agentId, context),
    }),
  }),
})

builder.subscriptionField('agentActivity', (t) =>
  t.field({
    type: AgentActivity,
    description: "First one for every agent member, active or not, then one at every change of a run's status.",
    args: { spaceId: t.arg.id({ required: true }) },
    subscribe: (_, { spaceId }, { streams, ...watcher }) => streams.agentActivity(watcher, { spaceId }),
    resolve: itself,
  }),
)
