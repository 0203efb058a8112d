import { BadInputError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { builder } from './builder.ts'
import { renewed } from './context.ts'

const CreateInvitationInput = builder.inputType('CreateInvitationInput', {
  fields: (t) => ({
    humanId: t.id({ required: true }),
    expiresInSeconds: t.int({ required: true, defaultValue: 604_800 }),
  }),
})

const CreateInvitationPayload = builder
  .objectRef<{ url: string; expiresAt: Date }>('CreateInvitationPayload')
  .implement({
    fields: (t) => ({
      url: t.exposeString('url', {
        description:
          "Good for one sign-in: the console's page for it, which asks `POST /invitations/:code` for a token.",
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
