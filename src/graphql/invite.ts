import { BadInputError, ForbiddenError, LimitExceededError, NotFoundError, RateLimitedError } from '../lib/errors.ts'
import { builder } from './builder.ts'
import { renewed } from './context.ts'
import { Viewer } from './refs.ts'

const InviteInput = builder.inputType('InviteInput', {
  fields: (t) => ({
    email: t.string({ required: true, description: 'The link is mailed, never returned.' }),
    spaceIds: t.idList({
      description: 'Spaces of the inviter that the person joins. At most 20. Absent: none.',
    }),
  }),
})

const InvitePayload = builder.objectRef<{ email: string; expiresAt: Date }>('InvitePayload').implement({
  fields: (t) => ({ email: t.exposeString('email'), expiresAt: t.expose('expiresAt', { type: 'DateTime' }) }),
})

builder.objectField(Viewer, 'mayInvite', (t) =>
  t.boolean({
    description: 'Whether the viewer may use `invite`, and the server sends mails.',
    resolve: (_, __, { domain, viewer }) => domain.inviting.mayInvite(viewer),
  }),
)

builder.mutationField('invite', (t) =>
  t.field({
    type: InvitePayload,
    description:
      'By admins, and by members where PARLEY_INVITE is `members`. The answer does not tell whether the address is known: a new person is created when the link is used, and somebody who is known signs in. Both join those of the spaces to which the inviter may add people by then.',
    errors: {
      types: [BadInputError, ForbiddenError, LimitExceededError, NotFoundError, RateLimitedError],
      union: { description: 'ForbiddenError: also if the server sends no mails (PARLEY_SMTP_URL).' },
    },
    args: { input: t.arg({ type: InviteInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.inviting.invite(viewer, { ...input, spaceIds: input.spaceIds ?? [] })
    },
  }),
)
