import { ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { renewed } from './context.ts'
import { Human, Message, Session } from './refs.ts'

builder.objectField(Session, 'actingAdmin', (t) =>
  t.field({
    type: Human,
    nullable: true,
    description:
      'The admin who acts as this human in this session. Null if nobody does, and for the operator, whom `device` names.',
    resolve: ({ actingAdminId }, _, { loaders }) => loadOptional(loaders.entities, actingAdminId),
  }),
)

builder.objectField(Message, 'actingAdmin', (t) =>
  t.field({
    type: Human,
    nullable: true,
    description: 'Set if an admin posted this while acting as its sender.',
    resolve: ({ actingAdminId }, _, { loaders }) => loadOptional(loaders.entities, actingAdminId),
  }),
)

const ActAsInput = builder.inputType('ActAsInput', {
  fields: (t) => ({ humanId: t.id({ required: true }) }),
})

const ActAsPayload = builder.objectRef<{ secret: string; expiresAt: Date }>('ActAsPayload').implement({
  description:
    'A bearer token of this human for 30 minutes. Its messages carry `actingAdmin`. The token may not decide on calls or grants, create tokens, change settings, or act as an admin.',
  fields: (t) => ({ secret: t.exposeString('secret'), expiresAt: t.expose('expiresAt', { type: 'DateTime' }) }),
})

builder.mutationField('actAs', (t) =>
  t.field({
    type: ActAsPayload,
    description:
      "Admins only. The human sees the new session among their sessions and can end it there. The session also ends with the admin's role, and with the session or token that requested it.",
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: ActAsInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.sessions.actAs(viewer, input)
    },
  }),
)
