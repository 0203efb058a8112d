import { BadInputError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { connectionOf, idCursor, idPageRequest, sizeOfPage } from './connections.ts'
import { renewed } from './context.ts'
import { TokenScopeType } from './enums.ts'
import { AccessToken, Human, Node } from './refs.ts'
import type * as shapes from './shapes.ts'

AccessToken.implement({
  description: 'A bearer token for the API. The secret itself is returned only by `createAccessToken`.',
  interfaces: [Node],
  fields: (t) => ({
    scope: t.expose('scope', { type: TokenScopeType }),
    human: t.field({
      type: Human,
      nullable: true,
      resolve: ({ humanId }, _, { loaders }) => loadOptional(loaders.entities, humanId),
    }),
    serviceName: t.exposeString('serviceName', { nullable: true }),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
    expiresAt: t.expose('expiresAt', { type: 'DateTime', nullable: true }),
    revokedAt: t.expose('revokedAt', { type: 'DateTime', nullable: true }),
    lastUsedAt: t.expose('lastUsedAt', { type: 'DateTime', nullable: true }),
  }),
})

const AdminGrantInput = builder.inputType('AdminGrantInput', { fields: (t) => ({ label: t.string() }) })

const ServiceGrantInput = builder.inputType('ServiceGrantInput', {
  fields: (t) => ({
    name: t.string({ required: true, description: 'The service name shown on its triggers.' }),
    agentIds: t.idList({
      description:
        'The agents that the token may trigger, and whose EXTERNAL calls it may answer. If absent: all agents.',
    }),
  }),
})

const TokenGrantInput = builder.inputType('TokenGrantInput', {
  isOneOf: true,
  fields: (t) => ({
    admin: t.field({ type: AdminGrantInput }),
    humanId: t.id({ description: 'The human that the token acts as.' }),
    service: t.field({ type: ServiceGrantInput }),
  }),
})

const CreateAccessTokenInput = builder.inputType('CreateAccessTokenInput', {
  fields: (t) => ({
    grant: t.field({ type: TokenGrantInput, required: true }),
    expiresAt: t.field({ type: 'DateTime' }),
  }),
})

const CreateAccessTokenPayload = builder
  .objectRef<{ accessToken: shapes.AccessToken; secret: string }>('CreateAccessTokenPayload')
  .implement({
    fields: (t) => ({
      accessToken: t.expose('accessToken', { type: AccessToken }),
      secret: t.exposeString('secret', {
        description: 'The bearer token. Returned only here: the server stores only a hash.',
      }),
    }),
  })

const RevokeAccessTokenInput = builder.inputType('RevokeAccessTokenInput', {
  fields: (t) => ({ id: t.id({ required: true }) }),
})

const RevokeAccessTokenPayload = builder
  .objectRef<{ accessToken: shapes.AccessToken }>('RevokeAccessTokenPayload')
  .implement({ fields: (t) => ({ accessToken: t.expose('accessToken', { type: AccessToken }) }) })

builder.mutationFields((t) => ({
  createAccessToken: t.field({
    type: CreateAccessTokenPayload,
    errors: { types: [BadInputError, ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: CreateAccessTokenInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.tokens.create(viewer, input)
    },
  }),
  revokeAccessToken: t.field({
    type: RevokeAccessTokenPayload,
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: RevokeAccessTokenInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return { accessToken: await domain.tokens.revoke(viewer, input) }
    },
  }),
}))

builder.queryField('accessTokens', (t) =>
  t.connection(
    {
      type: AccessToken,
      nullable: true,
      description: 'Null unless the viewer is an admin.',
      complexity: sizeOfPage(),
      args: { humanId: t.arg.id() },
      async resolve(_, { humanId, ...page }, { domain, viewer }) {
        const found = await domain.tokens.page(viewer, idPageRequest('acc', page), humanId ?? null)
        return found && connectionOf(found, idCursor)
      },
    },
    { name: 'AccessTokenConnection' },
    { name: 'AccessTokenEdge' },
  ),
)
