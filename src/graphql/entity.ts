import { builder } from './builder.ts'
import { Entity, Node } from './refs.ts'

const EntityKind = builder.enumType('EntityKind', { values: ['HUMAN', 'AGENT'] as const })

Entity.implement({
  description:
    'A human or an agent. Only humans and agents can be members of a space; services call the API from outside.',
  interfaces: [Node],
  resolveType: ({ kind }) => (kind === 'HUMAN' ? 'Human' : 'Agent'),
  fields: (t) => ({
    name: t.exposeString('name'),
    kind: t.expose('kind', { type: EntityKind }),
  }),
})
