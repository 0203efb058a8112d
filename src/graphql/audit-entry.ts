import { isAdmin } from '../rules/permissions.ts'
import { loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { connectionOf, idCursor, idPageRequest, sizeOfPage } from './connections.ts'
import { AuditEntry, Entity, Node } from './refs.ts'

AuditEntry.implement({
  description: 'One audited action.',
  interfaces: [Node],
  fields: (t) => ({
    id: t.exposeID('id', { description: '`aud_…`' }),
    at: t.expose('at', { type: 'DateTime' }),
    actor: t.field({
      type: Entity,
      nullable: true,
      description: 'Null if the operator acted.',
      resolve: ({ actorId }, _, { loaders }) => loadOptional(loaders.entities, actorId),
    }),
    serviceName: t.exposeString('serviceName', { nullable: true }),
    action: t.exposeString('action', {
      description: 'The name of the mutation, or `tool:<name>` if an agent changed the server with a tool.',
    }),
    targetId: t.exposeID('targetId', { nullable: true, description: 'The id of the object that the action changed.' }),
    detail: t.expose('detail', { type: 'JSON', nullable: true }),
    refused: t.exposeBoolean('refused', {
      description: 'Whether the server refused the action, as FORBIDDEN or CONFIDENTIAL.',
    }),
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
        'The changes, answers and decisions that people, agents and services made, newest first. Null unless the viewer is an admin.',
      complexity: sizeOfPage(),
      args: {
        actorId: t.arg.id(),
        targetId: t.arg.id(),
        action: t.arg.string(),
        from: t.arg({ type: 'DateTime' }),
        to: t.arg({ type: 'DateTime' }),
      },
      async resolve(_, { actorId, targetId, action, from, to, ...page }, { domain, viewer }) {
        if (!isAdmin(viewer)) return null
        const filter = { actorId, targetId, action, from, to }
        return connectionOf(await domain.auditLog.page(filter, idPageRequest('aud', page)), idCursor)
      },
    },
    AuditEntryConnection,
    AuditEntryEdge,
  ),
)
