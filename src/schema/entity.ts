import { builder } from './builder.ts'
import { Entity, Node } from './refs.ts'

const EntityKind = builder.enumType('EntityKind', { values: ['HUMAN', 'AGENT'] as const })

Entity.implement({
  description: 'A participant. Only humans and agents take part in spaces; services call the API from outside.',
  interfaces: [Node],
  resolveType: ({ kind }) => (kind === 'HUMAN' ? 'Human' : 'Agent'),
  fields: (t) => ({
    name: t.exposeString('name'),
    kind: t.expose('kind', { type: EntityKind }),
  }),
})
