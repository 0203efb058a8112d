import { ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { builder } from './builder.ts'
import { renewed } from './context.ts'
import { Human, Node, Session, Viewer } from './refs.ts'

Session.implement({
  description: 'A browser in which the viewer is signed in, by cookie. `POST /auth/token` opens one.',
  interfaces: [Node],
  fields: (t) => ({
    device: t.exposeString('device', {
      description: 'The browser and operating system, from the user agent, such as `Firefox on Linux`.',
    }),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
    lastUsedAt: t.expose('lastUsedAt', { type: 'DateTime', description: 'Accurate to the minute.' }),
    current: t.boolean({
      description: 'Whether this is the session of the current request.',
      resolve: ({ id }, _, { viewer }) => id === viewer.tokenId,
    }),
  }),
})

builder.objectField(Viewer, 'sessions', (t) =>
  t.field({
    type: [Session],
    description: "The viewer's sessions that have not ended, most recently used first; at most 50. Empty for services.",
    complexity: { field: 1, multiplier: 10 },
    resolve: (viewer, _, { domain }) => domain.sessions.list(viewer),
  }),
)

builder.objectField(Human, 'sessions', (t) =>
  t.field({
    type: [Session],
    nullable: true,
    description:
      'Sessions of this human that have not ended, most recently used first. Null unless the viewer is an admin or this human.',
    complexity: { field: 1, multiplier: 10 },
    resolve: ({ id }, _, { loaders }) => loaders.sessionsOfHumans.load(id),
  }),
)

const EndSessionInput = builder.inputType('EndSessionInput', {
  fields: (t) => ({
    id: t.id({ description: "If absent: all of the viewer's sessions except that of the current request." }),
  }),
})

const EndSessionPayload = builder.objectRef<{ endedSessionIds: string[] }>('EndSessionPayload').implement({
  fields: (t) => ({ endedSessionIds: t.exposeIDList('endedSessionIds') }),
})

builder.mutationField('endSession', (t) =>
  t.field({
    type: EndSessionPayload,
    description:
      "Ends sessions of the viewer and closes their sockets, on every server process within a second. An admin may end anybody's session. Access tokens stay valid.",
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: EndSessionInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return { endedSessionIds: await domain.sessions.end(viewer, { id: input.id ?? null }) }
    },
  }),
)
