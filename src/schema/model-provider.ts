import { builder } from './builder.ts'
import type * as shapes from './shapes.ts'

const ModelProvider = builder.objectRef<shapes.ModelProvider>('ModelProvider').implement({
  fields: (t) => ({
    name: t.exposeString('name'),
    api: t.exposeString('api'),
    baseUrl: t.exposeString('baseUrl', {
      nullable: true,
      description: "Null if the provider's package uses its default.",
    }),
    hasKey: t.exposeBoolean('hasKey', { description: 'Whether an API key is set. The key itself is never returned.' }),
    restsUntil: t.expose('restsUntil', {
      type: 'DateTime',
      nullable: true,
      description:
        'Set after five failures within a minute. Until this time the provider is skipped where an agent has a fallback model, and still called where there is none.',
    }),
  }),
})

builder.queryField('modelProviders', (t) =>
  t.field({
    type: [ModelProvider],
    nullable: true,
    description:
      'The providers in `PARLEY_PROVIDERS`, and `openai`, `openai.chat` and `demo`. Null unless the viewer is an admin.',
    resolve: (_, __, { domain, viewer }) => (viewer.scope === 'ADMIN' ? domain.modelProviders.list() : null),
  }),
)
