import { loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { connectionOf, idCursor, idPageRequest, sizeOfPage } from './connections.ts'
import { AuditEntry, Entity, Node } from './refs.ts'

AuditEntry.implement({
  interfaces: [Node],
  fields: (t) => ({
    id: t.exposeID('id', { description: '`aud_…`' }),
    at: t.expose('at', { type: 'DateTime' }),
    actor: t.field({
      type: Entity,
      nullable: true,
      description: 'Null for the operator.',
      resolve: ({ actorId }, _, { loaders }) => loadOptional(loaders.entities, actorId),
    }),
    serviceName: t.exposeString('serviceName', { nullable: true }),
    action: t.exposeString('action', {
      description: "The mutation's name, or `tool:<name>` for what an agent did to the server by a tool.",
    }),
    targetId: t.exposeID('targetId', { nullable: true, description: 'What it was done to.' }),
    detail: t.expose('detail', { type: 'JSON', nullable: true }),
    refused: t.exposeBoolean('refused', { description: 'Whether it was refused (FORBIDDEN, CONFIDENTIAL).' }),
  }),
})

const AuditEntryEdge = builder.edgeObject({ type: AuditEntry, name: 'AuditEntryEdge' })
const AuditEntryConnection = builder.connectionObject(
  { type: AuditEntry, name: 'AuditEntryConnection' },
  AuditEntryEdge,
)

builder.queryField('auditLog', (t) =>
  t.connection(
    {
      type: AuditEntry,
      nullable: true,
      description:
        'Null for everybody but admins. Newest first: who created, changed, removed, stopped, answered, decided, revoked what.',
      complexity: sizeOfPage(),
      args: {
        actorId: t.arg.id(),
        targetId: t.arg.id(),
        action: t.arg.string(),
        from: t.arg({ type: 'DateTime' }),
        to: t.arg({ type: 'DateTime' }),
      },
      async resolve(_, { actorId, targetId, action, from, to, ...page }, { domain, viewer }) {
        if (viewer.scope !== 'ADMIN') return null
        const filter = { actorId, targetId, action, from, to }
        return connectionOf(await domain.auditLog.page(filter, idPageRequest('aud', page)), idCursor)
      },
    },
    AuditEntryConnection,
    AuditEntryEdge,
  ),
)
