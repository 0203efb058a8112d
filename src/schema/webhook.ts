import { BadInputError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { renewed } from './context.ts'
import { Agent, Node, Webhook } from './refs.ts'
import type * as shapes from './shapes.ts'

Webhook.implement({
  description: 'A signed way in for a service: `POST url` wakes the agent.',
  interfaces: [Node],
  fields: (t) => ({
    agent: t.field({
      type: Agent,
      resolve: ({ agentId }, _, { loaders }) => loadExisting(loaders.entities, agentId),
    }),
    serviceName: t.exposeString('serviceName'),
    url: t.exposeString('url'),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
  }),
})

const CreateWebhookInput = builder.inputType('CreateWebhookInput', {
  fields: (t) => ({ agentId: t.id({ required: true }), serviceName: t.string({ required: true }) }),
})

const CreateWebhookPayload = builder
  .objectRef<{ webhook: shapes.Webhook; secret: string }>('CreateWebhookPayload')
  .implement({
    description: '`secret` (Standard Webhooks, `whsec_…`) is shown this once and kept encrypted.',
    fields: (t) => ({
      webhook: t.expose('webhook', { type: Webhook }),
      secret: t.exposeString('secret'),
    }),
  })

builder.mutationField('createWebhook', (t) =>
  t.field({
    type: CreateWebhookPayload,
    errors: { types: [BadInputError, ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: CreateWebhookInput, required: true }) },
    resolve(_, { input }, context) {
      const { app, viewer } = renewed(context)
      return app.webhooks.create(viewer, input)
    },
  }),
)
