import { ForbiddenError, NotFoundError, RateLimitedError } from '../lib/errors.ts'
import { builder } from './builder.ts'
import { checkRequestRate, renewed } from './context.ts'

const SetTypingInput = builder.inputType('SetTypingInput', { fields: (t) => ({ spaceId: t.id({ required: true }) }) })

const SetTypingPayload = builder.objectRef<{ typingUntil: Date }>('SetTypingPayload').implement({
  fields: (t) => ({ typingUntil: t.expose('typingUntil', { type: 'DateTime' }) }),
})

builder.mutationField('setTyping', (t) =>
  t.field({
    type: SetTypingPayload,
    description:
      'Shows the members of the space that the viewer is typing, until `typingUntil` or until the viewer sends a message. Clients call this mutation every 3 s while the person types.',
    errors: { types: [ForbiddenError, NotFoundError, RateLimitedError] },
    args: { input: t.arg({ type: SetTypingInput, required: true }) },
    async resolve(_, { input }, context) {
      checkRequestRate(context)
      const { domain, viewer } = renewed(context)
      return { typingUntil: await domain.presence.setTyping(viewer, input) }
    },
  }),
)
