import { BadInputError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { builder } from './builder.ts'
import { linkTo, renewed } from './context.ts'

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
          'A page of the console, valid for one sign-in. The page exchanges the code for a token with `POST /invitations/:code`.',
        resolve: ({ path }, _, context) => linkTo(context, path),
      }),
      expiresAt: t.expose('expiresAt', { type: 'DateTime' }),
    }),
  })

builder.mutationField('createInvitation', (t) =>
  t.field({
    type: CreateInvitationPayload,
    description: 'For admins.',
    errors: { types: [BadInputError, ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: CreateInvitationInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.invitations.create(viewer, input)
    },
  }),
)
