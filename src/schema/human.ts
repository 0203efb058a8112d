import { BadInputError, ConflictError, ForbiddenError } from '../lib/errors.ts'
import { builder } from './builder.ts'
import { renewed } from './context.ts'
import { Entity, Human, Node } from './refs.ts'
import type * as shapes from './shapes.ts'

Human.implement({
  interfaces: [Node, Entity],
  fields: (t) => ({
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
  }),
})

const CreateHumanInput = builder.inputType('CreateHumanInput', {
  fields: (t) => ({
    name: t.string({ required: true }),
    externalId: t.string({ description: "The `sub` of this human's sign-in tokens; unique." }),
  }),
})

const CreateHumanPayload = builder.objectRef<{ human: shapes.Participant }>('CreateHumanPayload').implement({
  fields: (t) => ({ human: t.expose('human', { type: Human }) }),
})

builder.mutationField('createHuman', (t) =>
  t.field({
    type: CreateHumanPayload,
    errors: { types: [BadInputError, ForbiddenError, ConflictError] },
    args: { input: t.arg({ type: CreateHumanInput, required: true }) },
    async resolve(_, { input }, context) {
      const { app, viewer } = renewed(context)
      return { human: await app.humans.create(viewer, input) }
    },
  }),
)
