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
      'The admin who acts as this human in this session. Null if nobody acts as the human, or if the operator does. In that case `device` is `The operator, acting as you`.',
    resolve: ({ actingAdminId }, _, { loaders }) => loadOptional(loaders.entities, actingAdminId),
  }),
)

builder.objectField(Message, 'actingAdmin', (t) =>
  t.field({
    type: Human,
    nullable: true,
    description: 'The admin who posted this message while acting as its sender. Null for all other messages.',
    resolve: ({ actingAdminId }, _, { loaders }) => loadOptional(loaders.entities, actingAdminId),
  }),
)

const ActAsInput = builder.inputType('ActAsInput', {
  fields: (t) => ({ humanId: t.id({ required: true }) }),
})

const ActAsPayload = builder.objectRef<{ secret: string; expiresAt: Date }>('ActAsPayload').implement({
  description:
    'A bearer token with which an admin acts as this human, valid for 30 minutes. Messages sent with the token have `actingAdmin` set. The token may not decide on calls or grants, create tokens, change settings, or act as an admin.',
  fields: (t) => ({ secret: t.exposeString('secret'), expiresAt: t.expose('expiresAt', { type: 'DateTime' }) }),
})

builder.mutationField('actAs', (t) =>
  t.field({
    type: ActAsPayload,
    description:
      'Admins only. Creates a session in which the admin acts as a human. The human sees it among their sessions and can end it. The session also ends when the admin loses the role, or when the session or token that requested it ends.',
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: ActAsInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.sessions.actAs(viewer, input)
    },
  }),
)
