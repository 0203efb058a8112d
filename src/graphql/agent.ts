import { isAdmin } from '../rules/permissions.ts'
import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { connectionOf, idCursor, idPageRequest, runCursor, runsRequest, sizeOfPage } from './connections.ts'
import type { Context } from './context.ts'
import { AddableByType, MindType, RunStatusType, ToolsetType } from './enums.ts'
import { Agent, AgentInternals, Entity, Node, Run } from './refs.ts'
import { RunConnection, RunEdge } from './run-connection.ts'
import type * as shapes from './shapes.ts'

type PublicFields = Pick<shapes.Agent, 'description' | 'model' | 'mind' | 'toolset' | 'paused' | 'addableBy'>

/** Loads the public fields of an agent. If the agent was deleted, returns the fields that are left in its row. */
async function wholeOf({ id }: { id: string }, { loaders }: Context): Promise<PublicFields> {
  const agent = await loaders.agents.load(id)
  if (agent !== null) return agent
  // The agent may have been deleted after its name was loaded.
  const formerly = (await loadExisting(loaders.entities, id)).formerly ?? (await loaders.entities.reload(id))?.formerly
  const was = formerly as Pick<PublicFields, 'model' | 'mind' | 'toolset'>
  return { description: null, paused: false, addableBy: 'ADMINS', ...was }
}

/**
 * Returns the agent's QUEUED, RUNNING and WAITING_TOOL runs that the viewer may see, newest first. `told`: the runs
 * in an event. If it is null, the runs are loaded.
 */
export async function activeRunsOf(
  agentId: string,
  { loaders, shownIn }: Context,
  told: shapes.Run[] | null = null,
): Promise<shapes.Run[]> {
  const runs = told ?? (await loaders.seenRuns(await loaders.activeRuns.load(agentId)))
  const isShown = (run: shapes.Run) => shownIn !== null && run.triggerSpaceId === shownIn
  const visible = await Promise.all(runs.map((run) => (isShown(run) ? run : loaders.visible.seenRun(run))))
  return visible.filter((run) => run !== null)
}

/** Whether a run or think cycle of the agent is RUNNING, in any space. */
export async function isActive(agentId: string, { loaders }: Context): Promise<boolean> {
  return (await loaders.activeRuns.load(agentId)).some(({ status }) => status === 'RUNNING')
}

Agent.implement({
  description: 'An AI agent: a model with instructions and tools.',
  interfaces: [Node, Entity],
  fields: (t) => ({
    description: t.string({
      nullable: true,
      resolve: async (agent, _, context) => (await wholeOf(agent, context)).description,
    }),
    model: t.string({
      description: '`provider:model`, e.g. `openai:gpt-5-mini`, or `demo` for the built-in scripted model.',
      resolve: async (agent, _, context) => (await wholeOf(agent, context)).model,
    }),
    mind: t.field({
      type: MindType,
      resolve: async (agent, _, context) => (await wholeOf(agent, context)).mind,
    }),
    toolset: t.field({
      type: ToolsetType,
      resolve: async (agent, _, context) => (await wholeOf(agent, context)).toolset,
    }),
    active: t.boolean({
      description: 'True while a run or think cycle of this agent is executing.',
      resolve: ({ id }, _, context) => isActive(id, context),
    }),
    activeRuns: t.field({
      type: [Run],
      description: "The agent's QUEUED, RUNNING and WAITING_TOOL runs that the viewer may see, newest first.",
      complexity: { field: 1, multiplier: 3 },
      resolve: ({ id }, _, context) => activeRunsOf(id, context),
    }),
    runs: t.connection(
      {
        type: Run,
        description: "The agent's runs that the viewer may see, newest first.",
        complexity: sizeOfPage(),
        args: { status: t.arg({ type: [RunStatusType] }) },
        async resolve({ id: parentId }, { status, ...page }, { loaders }) {
          const request = { request: runsRequest(page), statuses: status ?? null }
          const { items, ...ends } = await loaders.runPages.load({ parentId, request })
          return connectionOf({ ...ends, items: await loaders.seenRuns(items) }, runCursor)
        },
      },
      RunConnection,
      RunEdge,
    ),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
  }),
})

builder.objectFields(Agent, (t) => ({
  paused: t.boolean({
    description:
      'Nothing wakes a paused agent. Triggers of a stateless agent are dropped (outcome PAUSED); those of a persistent agent wait in its inbox. QUEUED runs wait; runs that have started continue. A plan that is due during the pause is skipped. It does not wake the agent later either. MENTION_CHAIN routing skips the agent, and agents that mention it or delegate to it get an error. `triggerAgent` returns a ConflictError, and webhooks respond with 409.',
    resolve: async (agent, _, context) => (await wholeOf(agent, context)).paused,
  }),
  deletedAt: t.field({
    type: 'DateTime',
    nullable: true,
    resolve: async ({ id }, _, { loaders }) => (await loadExisting(loaders.entities, id)).goneAt,
  }),
  internals: t.field({
    type: AgentInternals,
    nullable: true,
    description: 'Null unless the viewer is an admin.',
    resolve: async ({ id }, _, { viewer, loaders }) =>
      isAdmin(viewer) && (await loaders.agents.load(id)) !== null ? { agentId: id } : null,
  }),
}))

builder.queryFields((t) => ({
  agents: t.connection(
    {
      type: Agent,
      description: 'All agents, newest first. A SERVICE token sees only the agents that it may trigger.',
      // The cost of a search is higher, because a search reads the names of all agents.
      complexity: ({ search, ...page }) => ({ ...sizeOfPage()(page), field: search == null ? 1 : 50 }),
      args: { search: t.arg.string() },
      async resolve(_, { search, ...page }, { domain, viewer, loaders }) {
        const found = await domain.agents.page(viewer, idPageRequest('agt', page), search ?? null)
        for (const agent of found.items) loaders.agents.prime(agent.id, agent)
        return connectionOf(found, idCursor)
      },
    },
    { name: 'AgentConnection' },
    { name: 'AgentEdge' },
  ),
  agent: t.field({
    type: Agent,
    nullable: true,
    args: { id: t.arg.id({ required: true }) },
    async resolve(_, { id }, { loaders }) {
      const entity = await loaders.visible.entities.load(id)
      return entity?.kind === 'AGENT' ? entity : null
    },
  }),
}))

builder.objectField(Agent, 'addableBy', (t) =>
  t.field({
    type: AddableByType,
    description: 'Who may add this agent to a space, with `addMember` or `createSpace`. Others get a ForbiddenError.',
    resolve: async (agent, _, context) => (await wholeOf(agent, context)).addableBy,
  }),
)
