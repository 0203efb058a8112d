import { BadInputError, ConflictError, ForbiddenError, NotFoundError, RateLimitedError } from '../lib/errors.ts'
import { GRANT_STATES, stateOf } from '../rules/standing-grants.ts'
import { ApprovalDecision } from './approval.ts'
import { existing, loadExisting, loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { type Context, checkRequestRate, renewed, takeRate } from './context.ts'
import { Agent, Human, Node, Space, StandingGrant, ToolCall } from './refs.ts'
import type * as shapes from './shapes.ts'

const StandingGrantState = builder.enumType('StandingGrantState', {
  values: Object.fromEntries(GRANT_STATES.map((state) => [state, {}])) as Record<(typeof GRANT_STATES)[number], object>,
})

const standingOf = ({ id }: shapes.StandingGrant, { loaders }: Context) => loaders.grantStandings.load(id)

async function mayDecide(grant: shapes.StandingGrant, context: Context): Promise<boolean> {
  const { viewer } = context
  if (viewer.scope !== 'HUMAN' || stateOf(grant) !== 'PENDING') return false
  const { deciderIds, decisions } = await standingOf(grant, context)
  return deciderIds.includes(viewer.id) && !decisions.some(({ humanId }) => humanId === viewer.id)
}

StandingGrant.implement({
  description:
    "An approval in advance: calls that the grant covers are executed without further approval. The grant itself needs the approvers and the quorum of the tool's approval policy. It covers a call only while enough of the people who approved the grant may decide on that call.",
  interfaces: [Node],
  fields: (t) => ({
    id: t.exposeID('id', { description: '`grt_…`' }),
    agent: t.field({
      type: Agent,
      resolve: ({ agentId }, _, { loaders }) => loadExisting(loaders.entities, agentId),
    }),
    toolName: t.exposeString('toolName'),
    toolDigest: t.exposeString('toolDigest', {
      description:
        "A digest of the tool's definition, URL and approval policy. If any of these changes, the grant ends.",
    }),
    space: t.field({
      type: Space,
      nullable: true,
      description:
        'The space in which the covered calls are shown. Null if the grant covers only calls that are not shown in any space, or if the viewer may not see the space.',
      resolve: ({ spaceId }, _, { loaders }) => loadOptional(loaders.visible.spaces, spaceId),
    }),
    inputSchema: t.field({
      type: 'JSON',
      nullable: true,
      description:
        "A JSON Schema that the input of a call must match in addition to the tool's own schema. Null means any input.",
      resolve: ({ inputSchema }) => inputSchema,
    }),
    maxCalls: t.exposeInt('maxCalls', { nullable: true }),
    usedCalls: t.exposeInt('usedCalls', {
      description: 'The number of calls that this grant has approved, including calls that then failed.',
    }),
    amountProperty: t.exposeString('amountProperty', {
      nullable: true,
      description:
        'The numeric property of the input whose sum over all calls may reach `maxAmount`. A call without this property, or with a negative amount, is not covered.',
    }),
    maxAmount: t.exposeFloat('maxAmount', { nullable: true }),
    usedAmount: t.exposeFloat('usedAmount'),
    expiresAt: t.expose('expiresAt', { type: 'DateTime' }),
    activeSince: t.expose('activeSince', {
      type: 'DateTime',
      nullable: true,
      description: 'When the quorum was reached. Null until then.',
    }),
    revokedAt: t.expose('revokedAt', { type: 'DateTime', nullable: true }),
    revokedBy: t.field({
      type: Human,
      nullable: true,
      description:
        'The human who revoked the grant. Null if the grant was not revoked, or if it was revoked with an admin token.',
      resolve: ({ revokedById }, _, { loaders }) => loadOptional(loaders.entities, revokedById),
    }),
    state: t.field({ type: StandingGrantState, resolve: stateOf }),
    quorum: t.exposeInt('quorum'),
    decisions: t.field({
      type: [ApprovalDecision],
      complexity: { field: 1, multiplier: 3 },
      description: 'The decisions, oldest first. The first decision is that of the human who proposed the grant.',
      resolve: async (grant, _, context) => (await standingOf(grant, context)).decisions,
    }),
    mayDecide: t.boolean({
      description: 'Whether the viewer may decide now.',
      resolve: (grant, _, context) => mayDecide(grant, context),
    }),
    proposedBy: t.field({
      type: Human,
      resolve: ({ proposedById }, _, { loaders }) => loadExisting(loaders.entities, proposedById),
    }),
  }),
})

builder.queryField('standingGrants', (t) =>
  t.field({
    type: [StandingGrant],
    description:
      "The newest 100 standing grants that the viewer may see, newest first. These are the grants in the viewer's spaces and those on which the viewer may decide. An admin sees all grants.",
    args: { agentId: t.arg.id(), spaceId: t.arg.id() },
    resolve: (_, { agentId, spaceId }, { domain, viewer }) =>
      domain.grantReading.list(viewer, { agentId: agentId ?? null, spaceId: spaceId ?? null }),
  }),
)

const ProposeStandingGrantInput = builder.inputType('ProposeStandingGrantInput', {
  description: 'At least one of `inputSchema`, `maxCalls` and `maxAmount` is required.',
  fields: (t) => ({
    toolCallId: t.id({
      required: true,
      description:
        'A call that waits for approval. The grant applies to the agent, the tool and the space of this call.',
    }),
    inputSchema: t.field({ type: 'JSON' }),
    maxCalls: t.int({ description: '1 to 1,000,000.' }),
    amountProperty: t.string({ description: 'Required with `maxAmount`, and not allowed without it.' }),
    maxAmount: t.float({ description: 'Above 0, at most 1,000,000,000,000.' }),
    expiresInSeconds: t.int({ required: true, description: '1 to 2,592,000 (30 days).' }),
    approveCall: t.boolean({
      required: true,
      defaultValue: true,
      description: 'Whether this mutation also approves the call itself.',
    }),
  }),
})

const DecideStandingGrantInput = builder.inputType('DecideStandingGrantInput', {
  fields: (t) => ({ id: t.id({ required: true }), approve: t.boolean({ required: true }), reason: t.string() }),
})

const RevokeStandingGrantInput = builder.inputType('RevokeStandingGrantInput', {
  fields: (t) => ({ id: t.id({ required: true }) }),
})

const ProposeStandingGrantPayload = builder
  .objectRef<{ standingGrant: shapes.StandingGrant; toolCall: shapes.ToolCall }>('ProposeStandingGrantPayload')
  .implement({
    fields: (t) => ({
      standingGrant: t.expose('standingGrant', { type: StandingGrant }),
      toolCall: t.expose('toolCall', { type: ToolCall }),
    }),
  })

const grantPayload = (name: string) =>
  builder.objectRef<{ standingGrant: shapes.StandingGrant }>(name).implement({
    fields: (t) => ({ standingGrant: t.expose('standingGrant', { type: StandingGrant }) }),
  })

builder.mutationFields((t) => ({
  proposeStandingGrant: t.field({
    type: ProposeStandingGrantPayload,
    description:
      "Approvers of a waiting call only. Proposes a standing grant, under which similar calls are executed without further approval. The viewer's own approval of the grant is recorded at the same time.",
    errors: {
      types: [BadInputError, ConflictError, ForbiddenError, NotFoundError, RateLimitedError],
      union: {
        description:
          'ConflictError: the call has been settled, the tool is marked `alwaysAsk` or was changed, or the tool already has 20 standing grants in this space.',
      },
    },
    args: { input: t.arg({ type: ProposeStandingGrantInput, required: true }) },
    async resolve(_, { input }, context) {
      await takeRate(context, 'messages')
      const { domain, viewer, loaders } = renewed(context)
      const { standingGrant, toolCall } = await domain.grants.propose(viewer, input)
      const [seen] = await loaders.seenToolCalls([toolCall])
      return { standingGrant, toolCall: existing(seen) }
    },
  }),
  decideStandingGrant: t.field({
    type: grantPayload('DecideStandingGrantPayload'),
    description:
      'Only humans who may decide on calls to the tool may decide on the grant. A single denial ends the grant.',
    errors: {
      types: [BadInputError, ConflictError, ForbiddenError, NotFoundError, RateLimitedError],
      union: {
        description:
          'ConflictError: the grant was already approved or denied, the grant has ended, or this human has already decided on it.',
      },
    },
    args: { input: t.arg({ type: DecideStandingGrantInput, required: true }) },
    async resolve(_, { input }, context) {
      checkRequestRate(context)
      const { domain, viewer } = renewed(context)
      return { standingGrant: await domain.grants.decide(viewer, input) }
    },
  }),
  revokeStandingGrant: t.field({
    type: grantPayload('RevokeStandingGrantPayload'),
    description:
      'Revokes a standing grant, so that it approves no further calls. Calls that have already started are not affected. Only humans who may decide on calls to the tool, and admins, may revoke the grant.',
    errors: {
      types: [ConflictError, ForbiddenError, NotFoundError],
      union: { description: 'ConflictError: the grant has ended.' },
    },
    args: { input: t.arg({ type: RevokeStandingGrantInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return { standingGrant: await domain.grants.revoke(viewer, input) }
    },
  }),
}))
