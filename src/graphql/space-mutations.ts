import { BadInputError, ConflictError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { existing } from './batch.ts'
import { BudgetInput } from './budget.ts'
import { builder } from './builder.ts'
import { type Context, renewed } from './context.ts'
import { RoutingType } from './enums.ts'
import { Space } from './refs.ts'
import type * as shapes from './shapes.ts'

const ADMINS_ONLY = 'Only admins may set a budget; others get a ForbiddenError.'

const NARROWS = 'For BROADCAST routing: whether a message that mentions an agent wakes only that agent. Default false.'

const CreateSpaceInput = builder.inputType('CreateSpaceInput', {
  fields: (t) => ({
    name: t.string({ required: true }),
    description: t.string(),
    routing: t.field({ type: RoutingType, required: true, defaultValue: 'BROADCAST' }),
    adminAgentId: t.id(),
    memberIds: t.idList(),
    mentionNarrows: t.boolean({ description: NARROWS }),
    confidential: t.boolean(),
    budget: t.field({ type: BudgetInput, description: ADMINS_ONLY }),
  }),
})

const UpdateSpaceInput = builder.inputType('UpdateSpaceInput', {
  fields: (t) => ({
    id: t.id({ required: true }),
    name: t.string(),
    description: t.string(),
    routing: t.field({ type: RoutingType }),
    adminAgentId: t.id(),
    mentionNarrows: t.boolean({ description: NARROWS }),
    confidential: t.boolean({
      description:
        'Any human member may set `confidential` to true. Only admins may set it to false; others get a ForbiddenError. BadInputError if the space has no human.',
    }),
    budget: t.field({ type: BudgetInput, description: ADMINS_ONLY }),
  }),
})

const memberInput = (name: string) =>
  builder.inputType(name, {
    fields: (t) => ({ spaceId: t.id({ required: true }), entityId: t.id({ required: true }) }),
  })
const AddMemberInput = memberInput('AddMemberInput')
const RemoveMemberInput = memberInput('RemoveMemberInput')

const MarkReadInput = builder.inputType('MarkReadInput', {
  fields: (t) => ({ spaceId: t.id({ required: true }), messageId: t.id({ required: true }) }),
})

const spacePayload = (name: string) =>
  builder.objectRef<{ space: shapes.Space }>(name).implement({
    fields: (t) => ({ space: t.expose('space', { type: Space }) }),
  })

const RemoveMemberPayload = builder
  .objectRef<{ spaceId: string; entityId: string; space: shapes.Space | null }>('RemoveMemberPayload')
  .implement({
    description: '`space` is null if the viewer removed themselves, that is, left the space.',
    fields: (t) => ({
      spaceId: t.exposeID('spaceId'),
      entityId: t.exposeID('entityId'),
      space: t.expose('space', { type: Space, nullable: true }),
    }),
  })

async function payloadOf(space: shapes.Space, { loaders }: Context): Promise<{ space: shapes.Space }> {
  const [seen] = await loaders.seenSpaces([space])
  return { space: existing(seen) }
}

const DeleteSpaceInput = builder.inputType('DeleteSpaceInput', { fields: (t) => ({ id: t.id({ required: true }) }) })

const DeleteSpacePayload = builder.objectRef<{ deletedSpaceId: string }>('DeleteSpacePayload').implement({
  fields: (t) => ({ deletedSpaceId: t.exposeID('deletedSpaceId') }),
})

builder.mutationFields((t) => ({
  deleteSpace: t.field({
    type: DeleteSpacePayload,
    errors: {
      types: [ForbiddenError, NotFoundError],
      union: {
        description:
          'Allowed for admins and for the last human in the space. Subscriptions to the space end with NOT_FOUND, and every agent forgets the space (see `forgetSpace`).',
      },
    },
    args: { input: t.arg({ type: DeleteSpaceInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.deletion.deleteSpace(viewer, input)
    },
  }),
  createSpace: t.field({
    type: spacePayload('CreateSpacePayload'),
    errors: { types: [BadInputError, ForbiddenError, NotFoundError, LimitExceededError] },
    args: { input: t.arg({ type: CreateSpaceInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return payloadOf(await domain.spaces.create(viewer, input), context)
    },
  }),
  updateSpace: t.field({
    type: spacePayload('UpdateSpacePayload'),
    errors: { types: [BadInputError, ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: UpdateSpaceInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return payloadOf(await domain.spaces.update(viewer, input), context)
    },
  }),
}))

builder.mutationFields((t) => ({
  addMember: t.field({
    type: spacePayload('AddMemberPayload'),
    errors: {
      types: [ForbiddenError, NotFoundError, ConflictError, LimitExceededError],
      union: { description: 'ConflictError: the entity is already a member.' },
    },
    args: { input: t.arg({ type: AddMemberInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return payloadOf(await domain.members.add(viewer, input), context)
    },
  }),
  removeMember: t.field({
    type: RemoveMemberPayload,
    description:
      'Only members of the space and admins may remove members. When a human is removed by somebody else, all join links of the space stop working.',
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: RemoveMemberInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      const { space, ...ids } = await domain.members.remove(viewer, input)
      return space === null ? { ...ids, space } : { ...ids, ...(await payloadOf(space, context)) }
    },
  }),
  markRead: t.field({
    type: spacePayload('MarkReadPayload'),
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: MarkReadInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return payloadOf(await domain.reading.markRead(viewer, input), context)
    },
  }),
}))
