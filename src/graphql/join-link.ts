import {
  BadInputError,
  ConflictError,
  ForbiddenError,
  LimitExceededError,
  NotFoundError,
  RateLimitedError,
} from '../lib/errors.ts'
import { existing, loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { checkRequestRate, linkTo, renewed } from './context.ts'
import { Human, JoinLink, Node, Space } from './refs.ts'
import type * as shapes from './shapes.ts'

JoinLink.implement({
  description:
    'A link with which people join a space without an invitation. The link stops working when its creator leaves the space, or when somebody removes a human from the space.',
  interfaces: [Node],
  fields: (t) => ({
    url: t.string({
      description:
        'The URL of a page in the console that asks whether to join. The last segment of the URL is the code for `joinSpace`.',
      resolve: ({ path }, _, context) => linkTo(context, path),
    }),
    space: t.field({
      type: Space,
      resolve: async ({ spaceId }, _, { loaders }) => existing(await loaders.spaces.load(spaceId)),
    }),
    createdBy: t.field({
      type: Human,
      nullable: true,
      description: 'Null if an admin created it.',
      resolve: ({ createdById }, _, { loaders }) => loadOptional(loaders.entities, createdById),
    }),
    maxUses: t.exposeInt('maxUses', { nullable: true, description: 'Null means any number.' }),
    uses: t.exposeInt('uses'),
    expiresAt: t.expose('expiresAt', { type: 'DateTime' }),
  }),
})

builder.objectField(Space, 'joinLinks', (t) =>
  t.field({
    type: [JoinLink],
    description:
      'The join links that are still valid, newest first; at most 20. For human members and admins, who may create them; empty for others.',
    complexity: { field: 2, multiplier: 10 },
    resolve: ({ id }, _, { loaders }) => loaders.joinLinksOfSpaces.load(id),
  }),
)

const JoinableSpace = builder.objectRef<shapes.JoinableSpace>('JoinableSpace').implement({
  description: 'The space of a join link, as the holder of the link sees it before joining.',
  fields: (t) => ({
    name: t.exposeString('name'),
    inviterName: t.exposeString('inviterName', {
      nullable: true,
      description:
        'The name of the person who created the link. Null if the operator or an access token for admins created it.',
    }),
    memberCount: t.exposeInt('memberCount', { description: 'The number of people and agents in the space.' }),
    spaceId: t.exposeID('spaceId', { nullable: true, description: 'Null unless the viewer is already a member.' }),
  }),
})

builder.queryField('joinableSpace', (t) =>
  t.field({
    type: JoinableSpace,
    nullable: true,
    description:
      'The space of a join link. This query does not join the space. Null if the link no longer works, or if the viewer is not a human.',
    args: { code: t.arg.string({ required: true, description: 'The last segment of `JoinLink.url`.' }) },
    resolve: (_, { code }, { domain, viewer }) => domain.joinLinks.describe(viewer, { code }),
  }),
)

const CreateJoinLinkInput = builder.inputType('CreateJoinLinkInput', {
  fields: (t) => ({
    spaceId: t.id({ required: true }),
    maxUses: t.int({ description: '1 to 500. Unlimited if absent.' }),
    expiresInSeconds: t.int({ description: 'At most 30 days; default 7 days.' }),
  }),
})

const CreateJoinLinkPayload = builder
  .objectRef<{ joinLink: shapes.JoinLink }>('CreateJoinLinkPayload')
  .implement({ fields: (t) => ({ joinLink: t.expose('joinLink', { type: JoinLink }) }) })

const RevokeJoinLinkInput = builder.inputType('RevokeJoinLinkInput', {
  fields: (t) => ({ id: t.id({ required: true }) }),
})

const RevokeJoinLinkPayload = builder
  .objectRef<{ revokedId: string }>('RevokeJoinLinkPayload')
  .implement({ fields: (t) => ({ revokedId: t.exposeID('revokedId') }) })

const JoinSpaceInput = builder.inputType('JoinSpaceInput', {
  fields: (t) => ({ code: t.string({ required: true, description: 'The last segment of `JoinLink.url`.' }) }),
})

const JoinSpacePayload = builder
  .objectRef<{ space: shapes.Space }>('JoinSpacePayload')
  .implement({ fields: (t) => ({ space: t.expose('space', { type: Space }) }) })

builder.mutationFields((t) => ({
  createJoinLink: t.field({
    type: CreateJoinLinkPayload,
    description: 'Only human members of the space and admins may create join links.',
    errors: { types: [BadInputError, ForbiddenError, LimitExceededError, NotFoundError] },
    args: { input: t.arg({ type: CreateJoinLinkInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return { joinLink: await domain.joinLinks.create(viewer, input) }
    },
  }),
  revokeJoinLink: t.field({
    type: RevokeJoinLinkPayload,
    description: "Only human members of the link's space and admins may revoke the link.",
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: RevokeJoinLinkInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.joinLinks.revoke(viewer, input)
    },
  }),
  joinSpace: t.field({
    type: JoinSpacePayload,
    errors: {
      types: [ConflictError, ForbiddenError, LimitExceededError, NotFoundError, RateLimitedError],
      union: {
        description: 'ConflictError: the viewer is already a member. ForbiddenError: the viewer is not a human.',
      },
    },
    args: { input: t.arg({ type: JoinSpaceInput, required: true }) },
    async resolve(_, { input }, context) {
      checkRequestRate(context)
      const { domain, viewer, loaders } = renewed(context)
      const [space] = await loaders.seenSpaces([await domain.joinLinks.join(viewer, input)])
      return { space: existing(space) }
    },
  }),
}))
