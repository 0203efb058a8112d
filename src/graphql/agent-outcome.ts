import { isAdmin } from '../rules/permissions.ts'
import { loadExisting, loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { Agent, AgentOutcome, Message, Run } from './refs.ts'
import type { Loaders } from './viewer-loaders.ts'

const AgentOutcomeKind = builder.enumType('AgentOutcomeKind', {
  values: {
    RUN: { description: 'The message started a run.' },
    INBOX: { description: "The message is in the agent's inbox." },
    SKIPPED: {
      description:
        'The agent read the message and did nothing that others can see: it called the skip tool, or ended without posting.',
    },
    NOT_ROUTED: { description: "The space's routing did not choose this agent." },
    LOOP_LIMIT: { description: 'The runs of this root (see `Run.rootId`) reached their maximum depth or number.' },
    DUPLICATE: { description: 'The same message had already triggered this agent.' },
    ANSWERED: {
      description: 'A run of this agent was waiting for this message in a tool call, so no second run was started.',
    },
    PAUSED: { description: 'The agent is paused, and a stateless agent has no inbox.' },
    OVER_BUDGET: { description: 'A budget of the agent, the space, the root or the human at the root is exhausted.' },
    FAILED: {
      description:
        'The run or think cycle failed and is not retried automatically; `error` says why. `retryRun` changes the outcome back to RUN.',
    },
    DROPPED: {
      description:
        "The agent did not read the message: before it could, the agent left the space or was deleted, the message was deleted, or an admin removed the message from the agent's inbox.",
    },
  } as const,
})

AgentOutcome.implement({
  description: 'The outcome of a message for one agent.',
  fields: (t) => ({
    agent: t.field({
      type: Agent,
      resolve: ({ agentId }, _, { loaders }) => loadExisting(loaders.entities, agentId),
    }),
    kind: t.expose('kind', { type: AgentOutcomeKind }),
    reason: t.string({
      nullable: true,
      description:
        'The reason for the outcome. For SKIPPED, this is the reason that the agent gave; it is null for viewers who may not read all confidential spaces that the reason comes from. If the agent gave no reason, admins see the first line of its closing text. For other kinds, only admins see the reason.',
      resolve: ({ kind, reason, closing, label, isLabelKnown }, _, { viewer, loaders }) => {
        if (isAdmin(viewer)) return reason ?? closing
        if (kind !== 'SKIPPED' || reason === null || !isLabelKnown) return null
        return areVisible(loaders, label).then((areSeen) => (areSeen ? reason : null))
      },
    }),
    error: t.string({
      nullable: true,
      description:
        "First line of the error if the kind is FAILED. If the model's provider failed, admins see the provider's message, and others see advice on what to do.",
      async resolve({ error, runId }, _, { viewer, loaders }) {
        if (error === null || !isAdmin(viewer) || runId === null) return error
        const run = await loaders.runs.load(runId)
        return run?.error?.split('\n', 1)[0] ?? error
      },
    }),
    readingSince: t.expose('readingSince', {
      type: 'DateTime',
      nullable: true,
      description: "When the agent's run or think cycle that includes this message began.",
    }),
    readAt: t.expose('readAt', {
      type: 'DateTime',
      nullable: true,
      description: "When the agent's run or think cycle that includes this message ended.",
    }),
    run: t.field({
      type: Run,
      nullable: true,
      resolve: ({ runId }, _, { loaders }) => loadOptional(loaders.visible.runs, runId),
    }),
  }),
})

/** Whether the viewer may see all of these spaces. */
async function areVisible(loaders: Loaders, spaceIds: readonly string[]): Promise<boolean> {
  const spaces = await Promise.all(spaceIds.map((id) => loadOptional(loaders.visible.spaces, id)))
  return spaces.every((space) => space != null)
}

builder.objectField(Message, 'outcomes', (t) =>
  t.field({
    type: [AgentOutcome],
    description:
      'The outcome of the message for each agent that is a member: whether the message woke the agent, and why.',
    complexity: { field: 1, multiplier: 3 },
    resolve: ({ id }, _, { loaders }) => loaders.outcomes.load(id),
  }),
)
