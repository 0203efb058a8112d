import { BadInputError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import { loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { connectionOf, idCursor, idPageRequest, sizeOfPage } from './connections.ts'
import { linkTo, renewed } from './context.ts'
import { Human, Invitation, Node, Space } from './refs.ts'

Invitation.implement({
  description:
    'An invitation that has not been used and has not expired. `createInvitation` returns its link for an admin to pass on; `invite` emails the link. The link cannot be read again later.',
  interfaces: [Node],
  fields: (t) => ({
    human: t.field({
      type: Human,
      nullable: true,
      description: 'The person whom the link signs in. Null if no person has the email address yet.',
      resolve: ({ humanId }, _, { loaders }) => loadOptional(loaders.entities, humanId),
    }),
    email: t.exposeString('email', {
      nullable: true,
      description: 'The address to which the link is emailed. Null for a link that `createInvitation` returned.',
    }),
    spaces: t.field({
      type: [Space],
      description: 'The spaces that the person joins, provided that the inviter may still add people to them.',
      complexity: { field: 1, multiplier: 5 },
      resolve: async ({ spaceIds }, _, { loaders }) => {
        const found = await Promise.all(spaceIds.map((id) => loaders.spaces.load(id)))
        return found.filter((space) => space !== null)
      },
    }),
    invitedBy: t.field({
      type: Human,
      nullable: true,
      description: 'Null if the operator or an access token for admins created it.',
      resolve: ({ inviterId }, _, { loaders }) =>
        loadOptional(loaders.entities, inviterId !== null && prefixOf(inviterId) === 'hum' ? inviterId : null),
    }),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
    expiresAt: t.expose('expiresAt', { type: 'DateTime' }),
  }),
})

builder.queryField('invitations', (t) =>
  t.connection(
    {
      type: Invitation,
      nullable: true,
      description: 'The open invitations, newest first. Null unless the viewer is an admin.',
      complexity: sizeOfPage(),
      async resolve(_, page, { domain, viewer }) {
        const found = await domain.invitations.page(viewer, idPageRequest('inv', page))
        return found && connectionOf(found, idCursor)
      },
    },
    { name: 'InvitationConnection' },
    { name: 'InvitationEdge' },
  ),
)

const CreateInvitationInput = builder.inputType('CreateInvitationInput', {
  fields: (t) => ({
    humanId: t.id({ required: true }),
    expiresInSeconds: t.int({ required: true, defaultValue: 604_800 }),
  }),
})

const CreateInvitationPayload = builder
  .objectRef<{ path: string; expiresAt: Date }>('CreateInvitationPayload')
  .implement({
    fields: (t) => ({
      url: t.string({
        description:
          'A page of the console, valid for one sign-in. A program can instead exchange the code at the end of the URL for a token, with `POST /invitations/:code`.',
        resolve: ({ path }, _, context) => linkTo(context, path),
      }),
      expiresAt: t.expose('expiresAt', { type: 'DateTime' }),
    }),
  })

const RevokeInvitationInput = builder.inputType('RevokeInvitationInput', {
  fields: (t) => ({ id: t.id({ required: true }) }),
})

const RevokeInvitationPayload = builder
  .objectRef<{ revokedId: string }>('RevokeInvitationPayload')
  .implement({ fields: (t) => ({ revokedId: t.exposeID('revokedId') }) })

builder.mutationFields((t) => ({
  createInvitation: t.field({
    type: CreateInvitationPayload,
    description: 'Admins only.',
    errors: { types: [BadInputError, ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: CreateInvitationInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.invitations.create(viewer, input)
    },
  }),
  revokeInvitation: t.field({
    type: RevokeInvitationPayload,
    description: 'Admins only. Revokes an open invitation, so that its link stops working.',
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: RevokeInvitationInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.invitations.revoke(viewer, input)
    },
  }),
}))
