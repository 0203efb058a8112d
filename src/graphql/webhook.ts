import { BadInputError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { connectionOf, idCursor, idPageRequest, sizeOfPage } from './connections.ts'
import { linkTo, renewed } from './context.ts'
import { Agent, Node, Webhook } from './refs.ts'
import type * as shapes from './shapes.ts'

Webhook.implement({
  description: 'Lets a service wake the agent with a signed POST to `url`.',
  interfaces: [Node],
  fields: (t) => ({
    agent: t.field({
      type: Agent,
      resolve: ({ agentId }, _, { loaders }) => loadExisting(loaders.entities, agentId),
    }),
    serviceName: t.exposeString('serviceName'),
    url: t.string({ resolve: ({ path }, _, context) => linkTo(context, path) }),
    urgent: t.exposeBoolean('urgent'),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
    lastUsedAt: t.expose('lastUsedAt', { type: 'DateTime', nullable: true }),
  }),
})

const CreateWebhookInput = builder.inputType('CreateWebhookInput', {
  fields: (t) => ({
    agentId: t.id({ required: true }),
    serviceName: t.string({ required: true }),
    urgent: t.boolean({ description: 'Whether events of the webhook are urgent for a persistent agent.' }),
  }),
})

const CreateWebhookPayload = builder
  .objectRef<{ webhook: shapes.Webhook; secret: string }>('CreateWebhookPayload')
  .implement({
    description: '`secret` (Standard Webhooks, `whsec_…`) is returned only here; the server stores it encrypted.',
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
      const { domain, viewer } = renewed(context)
      return domain.webhooks.create(viewer, input)
    },
  }),
)

const DeleteWebhookInput = builder.inputType('DeleteWebhookInput', {
  fields: (t) => ({ id: t.id({ required: true }) }),
})

const DeleteWebhookPayload = builder.objectRef<{ deletedWebhookId: string }>('DeleteWebhookPayload').implement({
  fields: (t) => ({ deletedWebhookId: t.exposeID('deletedWebhookId') }),
})

const RotateWebhookSecretInput = builder.inputType('RotateWebhookSecretInput', {
  fields: (t) => ({
    id: t.id({ required: true }),
    graceSeconds: t.int({ required: true, defaultValue: 86_400, description: 'How long the old secret stays valid.' }),
  }),
})

const RotateWebhookSecretPayload = builder
  .objectRef<{ webhook: shapes.Webhook; secret: string }>('RotateWebhookSecretPayload')
  .implement({
    fields: (t) => ({
      webhook: t.expose('webhook', { type: Webhook }),
      secret: t.exposeString('secret'),
    }),
  })

builder.mutationFields((t) => ({
  deleteWebhook: t.field({
    type: DeleteWebhookPayload,
    description: 'Admins only.',
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: DeleteWebhookInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.webhooks.delete(viewer, input)
    },
  }),
  rotateWebhookSecret: t.field({
    type: RotateWebhookSecretPayload,
    description: 'Admins only.',
    errors: { types: [BadInputError, ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: RotateWebhookSecretInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.webhooks.rotateSecret(viewer, input)
    },
  }),
}))

builder.queryField('webhooks', (t) =>
  t.connection(
    {
      type: Webhook,
      nullable: true,
      description: 'Null unless the viewer is an admin.',
      complexity: sizeOfPage(),
      args: { agentId: t.arg.id() },
      async resolve(_, { agentId, ...page }, { domain, viewer }) {
        const found = await domain.webhooks.page(viewer, idPageRequest('whk', page), agentId ?? null)
        return found && connectionOf(found, idCursor)
      },
    },
    { name: 'WebhookConnection' },
    { name: 'WebhookEdge' },
  ),
)
