import { BadInputError, ForbiddenError, LimitExceededError, NotFoundError, RateLimitedError } from '../lib/errors.ts'
import { builder } from './builder.ts'
import { renewed } from './context.ts'
import { Viewer } from './refs.ts'

const InviteInput = builder.inputType('InviteInput', {
  fields: (t) => ({
    email: t.string({ required: true, description: 'The link is emailed, never returned.' }),
    spaceIds: t.idList({
      description: 'Spaces of the inviter that the person joins; at most 20. If absent, the person joins none.',
    }),
  }),
})

const InvitePayload = builder.objectRef<{ email: string; expiresAt: Date }>('InvitePayload').implement({
  fields: (t) => ({ email: t.exposeString('email'), expiresAt: t.expose('expiresAt', { type: 'DateTime' }) }),
})

builder.objectField(Viewer, 'mayInvite', (t) =>
  t.boolean({
    description: 'Whether the viewer may use `invite`, and the server can send email.',
    resolve: (_, __, { domain, viewer }) => domain.inviting.mayInvite(viewer),
  }),
)

builder.mutationField('invite', (t) =>
  t.field({
    type: InvitePayload,
    description:
      'Admins may invite people. Other humans may do so if PARLEY_INVITE is `members`. The response does not reveal whether the email address belongs to somebody. The link signs in the person with this address, or creates a new person. That person joins the spaces to which the inviter may still add people at that time.',
    errors: {
      types: [BadInputError, ForbiddenError, LimitExceededError, NotFoundError, RateLimitedError],
      union: {
        description:
          'ForbiddenError: the viewer may not invite people, or the server cannot send email (PARLEY_SMTP_URL).',
      },
    },
    args: { input: t.arg({ type: InviteInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.inviting.invite(viewer, { ...input, spaceIds: input.spaceIds ?? [] })
    },
  }),
)
