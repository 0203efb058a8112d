import { builder } from './builder.ts'
import type * as shapes from './shapes.ts'

const ModelProvider = builder.objectRef<shapes.ModelProvider>('ModelProvider').implement({
  fields: (t) => ({
    name: t.exposeString('name'),
    api: t.exposeString('api'),
    baseUrl: t.exposeString('baseUrl', {
      nullable: true,
      description: "Null where the provider's package has its own.",
    }),
    hasKey: t.exposeBoolean('hasKey', { description: 'Whether it has a key: never the key.' }),
    restsUntil: t.expose('restsUntil', {
      type: 'DateTime',
      nullable: true,
      description:
        'A provider that failed five times in a minute rests until then: passed over where there is a fallback, still tried where there is none.',
    }),
  }),
})

builder.queryField('modelProviders', (t) =>
  t.field({
    type: [ModelProvider],
    nullable: true,
    description: 'Null for everybody but admins: those of `PARLEY_PROVIDERS`, `openai`, `openai.chat` and `demo`.',
    resolve: (_, __, { domain, viewer }) => (viewer.scope === 'ADMIN' ? domain.modelProviders.list() : null),
  }),
)
