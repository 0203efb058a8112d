import type { Rate } from '../access/rates.ts'
import type { Viewer as ViewerShape } from '../access/viewer.ts'
import { isAdmin } from '../rules/permissions.ts'
import { builder } from './builder.ts'
import { TokenScopeType } from './enums.ts'
import { Human, ToolCall, Viewer } from './refs.ts'

const RateLimit = builder.objectRef<Rate>('RateLimit').implement({
  fields: (t) => ({
    name: t.exposeString('name', {
      description: 'The name of the limit: `messages`, `requests` or `triggers`. Admins have no rate limits.',
    }),
    limit: t.exposeInt('limit'),
    remaining: t.exposeInt('remaining'),
    resetsAt: t.expose('resetsAt', { type: 'DateTime' }),
  }),
})

Viewer.implement({
  description: 'The human, service or admin that the token identifies.',
  fields: (t) => ({
    id: t.id({
      description:
        "The viewer's own id (`viw_…`), which is the same for every request of the same human or token. It differs from `human.id`, because ids are unique across types.",
      resolve: ({ id }) => id.replace(/^[a-z]+_/, 'viw_'),
    }),
    scope: t.expose('scope', { type: TokenScopeType }),
    isAdmin: t.boolean({
      description:
        'Whether the viewer may do everything that the operator may do. True for the scope ADMIN and for humans with the role ADMIN.',
      resolve: (viewer) => isAdmin(viewer),
    }),
    human: t.field({
      type: Human,
      nullable: true,
      resolve: ({ scope, id }, _, { loaders }) => (scope === 'HUMAN' ? loaders.entities.load(id) : null),
    }),
    serviceName: t.string({ nullable: true, resolve: (viewer) => (viewer.scope === 'SERVICE' ? viewer.name : null) }),
    unreadCount: t.int({
      description: 'Unread messages in all spaces of the viewer.',
      // The field is expensive because the messages of all spaces are read to count them.
      complexity: 50,
      resolve: async (_, __, { loaders }) => (await loaders.unreadTotal.load()).messages,
    }),
    unreadMentions: t.int({
      description: 'Unread messages that mention the viewer, in all spaces of the viewer.',
      complexity: 50,
      resolve: async (_, __, { loaders }) => (await loaders.unreadTotal.load()).mentions,
    }),
    pendingToolCalls: t.field({
      type: [ToolCall],
      description:
        'The waiting tool calls that the viewer may answer, in all spaces of the viewer, oldest first; at most 100.',
      complexity: { field: 1, multiplier: 20 },
      resolve: async (viewer, _, { domain, loaders }) =>
        loaders.seenToolCalls(await domain.control.pendingToolCalls(viewer)),
    }),
    rateLimits: t.field({ type: [RateLimit], resolve: (viewer, _, { domain }) => domain.rates.of(viewer) }),
  }),
})

builder.queryField('viewer', (t) => t.field({ type: Viewer, resolve: (_, __, { viewer }): ViewerShape => viewer }))
