import { BadInputError, ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { loadExisting, loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { connectionOf, idCursorWithin, idPageRequest, sizeOfPage } from './connections.ts'
import { checkRequestRate, renewed } from './context.ts'
import { Agent, AgentInternals, AgentVersion, Entity, Node, Run } from './refs.ts'
import type * as shapes from './shapes.ts'

/** The complexity of a field whose value may have several megabytes and is read by a separate statement. */
const LARGE = 20

AgentVersion.implement({
  description: 'The definition of an agent after one change to its settings or tools.',
  interfaces: [Node],
  fields: (t) => ({
    number: t.exposeInt('number', {
      description: 'Starts at 1. A draft has the number that it will get when it is published.',
    }),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
    author: t.field({
      type: Entity,
      nullable: true,
      description: 'The person who made the change. Null if the operator made it.',
      resolve: ({ authorId }, _, { loaders }) => loadOptional(loaders.entities, authorId),
    }),
    note: t.exposeString('note', { nullable: true }),
    definition: t.field({
      type: 'JSON',
      description:
        'The whole definition: instructions, model, tools, phases, settings, and the fingerprints of confirmed MCP tools. Headers are listed by name, without their values.',
      complexity: LARGE,
      resolve: (version, _, { domain }) => domain.agentVersions.definition(version),
    }),
    diff: t.string({
      description:
        'The difference from the previous version (for a draft, from the published version) as a unified diff of YAML. Empty if there is none.',
      complexity: LARGE,
      resolve: (version, _, { domain }) => domain.agentVersions.diff(version),
    }),
  }),
})

builder.objectFields(AgentInternals, (t) => ({
  versions: t.connection(
    {
      type: AgentVersion,
      description: 'The versions of the agent, newest first; the last 1000 are kept.',
      complexity: sizeOfPage(),
      async resolve({ agentId }, page, { loaders }) {
        const request = idPageRequest('agv', page, agentId)
        return connectionOf(await loaders.versionPages.load({ parentId: agentId, request }), idCursorWithin(agentId))
      },
    },
    { name: 'AgentVersionConnection' },
    { name: 'AgentVersionEdge' },
  ),
  draft: t.field({
    type: AgentVersion,
    nullable: true,
    description: 'Changes that are not published yet. Null if there are none.',
    resolve: ({ agentId }, _, { loaders }) => loaders.drafts.load(agentId),
  }),
}))

builder.objectField(Run, 'agentVersion', (t) =>
  t.int({
    description:
      "The version of the agent that the run uses until it ends. Before the run begins, this is the agent's current version. 0 if the run is older than the first version.",
    async resolve({ agentId, agentVersion, startedAt }, _, { loaders }) {
      if (startedAt !== null) return agentVersion
      return (await loaders.agents.load(agentId))?.version ?? agentVersion
    },
  }),
)

const payload = (name: string) =>
  builder.objectRef<{ agent: shapes.Agent; versionId: string }>(name).implement({
    fields: (t) => ({
      agent: t.expose('agent', { type: Agent }),
      version: t.field({
        type: AgentVersion,
        resolve: ({ versionId }, _, { loaders }) => loadExisting(loaders.agentVersions, versionId),
      }),
    }),
  })

const NOTE = 'At most 1000 characters.'

const PublishAgentDraftInput = builder.inputType('PublishAgentDraftInput', {
  fields: (t) => ({
    agentId: t.id({ required: true }),
    note: t.string({ description: `${NOTE} If absent, the note of the draft is used.` }),
  }),
})

const RestoreAgentVersionInput = builder.inputType('RestoreAgentVersionInput', {
  fields: (t) => ({
    versionId: t.id({ required: true }),
    note: t.string({ description: `${NOTE} Default: "Version N again".` }),
  }),
})

builder.mutationFields((t) => ({
  publishAgentDraft: t.field({
    type: payload('PublishAgentDraftPayload'),
    description:
      'Admins only. Makes the draft the next version. ConflictError: there is no draft, another version was published after it was saved, or something that the draft refers to no longer exists.',
    errors: { types: [BadInputError, ConflictError, ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: PublishAgentDraftInput, required: true }) },
    async resolve(_, { input }, context) {
      checkRequestRate(context)
      const { domain, viewer, loaders } = renewed(context)
      const published = await domain.agents.publishDraft(viewer, input)
      loaders.agents.prime(published.agent.id, published.agent)
      return published
    },
  }),
  restoreAgentVersion: t.field({
    type: payload('RestoreAgentVersionPayload'),
    description:
      'Admins only. Makes an earlier version of the agent the current one, under a new version number. Tools keep their current headers. ConflictError: headers, a model or people that the version needs no longer exist.',
    errors: { types: [BadInputError, ConflictError, ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: RestoreAgentVersionInput, required: true }) },
    async resolve(_, { input }, context) {
      checkRequestRate(context)
      const { domain, viewer, loaders } = renewed(context)
      const restored = await domain.agents.restore(viewer, input)
      loaders.agents.prime(restored.agent.id, restored.agent)
      return restored
    },
  }),
}))
