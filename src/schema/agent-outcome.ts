import { loadExisting, loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { Agent, AgentOutcome, Message, Run } from './refs.ts'

const AgentOutcomeKind = builder.enumType('AgentOutcomeKind', {
  values: {
    RUN: { description: 'It started a run.' },
    INBOX: { description: "It went to the agent's inbox." },
    SKIPPED: { description: 'Its agent read it and called skip.' },
    NOT_ROUTED: { description: "The space's routing did not choose this agent." },
    LOOP_LIMIT: { description: 'The chain of triggers had reached its greatest depth or number of runs.' },
    DUPLICATE: { description: 'This agent had been triggered by this message before.' },
    ANSWERED: { description: 'It answered what a run of this agent was waiting for, and started no second one.' },
    PAUSED: { description: 'The agent is paused, and keeps no inbox.' },
    OVER_BUDGET: { description: 'A budget is spent: of the agent, the space or the root.' },
    FAILED: {
      description:
        'Its run or cycle failed and is not tried again by itself; `error` says how. A retry turns it back to RUN.',
    },
    DROPPED: { description: 'The agent left the space, or was deleted, before it had read it.' },
  } as const,
})

AgentOutcome.implement({
  fields: (t) => ({
    agent: t.field({
      type: Agent,
      resolve: ({ agentId }, _, { loaders }) => loadExisting(loaders.entities, agentId),
    }),
    kind: t.expose('kind', { type: AgentOutcomeKind }),
    reason: t.string({
      nullable: true,
      description: 'Admins only.',
      resolve: ({ reason }, _, { viewer }) => (viewer.scope === 'ADMIN' ? reason : null),
    }),
    error: t.exposeString('error', {
      nullable: true,
      description: 'The first line of why it FAILED, for whoever sees the outcome.',
    }),
    run: t.field({
      type: Run,
      nullable: true,
      resolve: ({ runId }, _, { loaders }) => loadOptional(loaders.visible.runs, runId),
    }),
  }),
})

builder.objectField(Message, 'outcomes', (t) =>
  t.field({
    type: [AgentOutcome],
    description: 'What this message meant to each agent member: who woke, who did not, and why.',
    complexity: { field: 1, multiplier: 3 },
    resolve: ({ id }, _, { loaders }) => loaders.outcomes.load(id),
  }),
)
