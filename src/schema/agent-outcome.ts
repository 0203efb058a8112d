import { loadExisting, loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { Agent, AgentOutcome, Message, Run } from './refs.ts'

const AgentOutcomeKind = builder.enumType('AgentOutcomeKind', {
  values: {
    RUN: { description: 'The message started a run.' },
    INBOX: { description: "The message is in the agent's inbox." },
    SKIPPED: { description: 'The agent read the message and called the skip tool.' },
    NOT_ROUTED: { description: "The space's routing did not choose this agent." },
    LOOP_LIMIT: { description: 'The depth or the number of runs of this root reached its limit.' },
    DUPLICATE: { description: 'The same message had triggered this agent before.' },
    ANSWERED: {
      description: 'The message answered a call that a run of this agent was waiting in, and started no second run.',
    },
    PAUSED: { description: 'The agent is paused, and a stateless agent has no inbox.' },
    OVER_BUDGET: { description: 'A budget of the agent, the space or the root is exhausted.' },
    FAILED: {
      description:
        'The run or think cycle failed and is not retried automatically; `error` says why. `retryRun` changes the outcome back to RUN.',
    },
    DROPPED: { description: 'The agent left the space or was deleted before it read the message.' },
  } as const,
})

AgentOutcome.implement({
  description: 'What a message did for one agent.',
  fields: (t) => ({
    agent: t.field({
      type: Agent,
      resolve: ({ agentId }, _, { loaders }) => loadExisting(loaders.entities, agentId),
    }),
    kind: t.expose('kind', { type: AgentOutcomeKind }),
    reason: t.string({
      nullable: true,
      description: 'Null unless the viewer is an admin.',
      resolve: ({ reason }, _, { viewer }) => (viewer.scope === 'ADMIN' ? reason : null),
    }),
    error: t.exposeString('error', {
      nullable: true,
      description: 'First line of the error if the kind is FAILED. Visible to everyone who sees the outcome.',
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
    description: 'What the message did for each agent that is a member: whether the agent woke, and why or why not.',
    complexity: { field: 1, multiplier: 3 },
    resolve: ({ id }, _, { loaders }) => loaders.outcomes.load(id),
  }),
)
