import { BadInputError, ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { isAdmin } from '../rules/permissions.ts'
import { builder } from './builder.ts'
import { renewed } from './context.ts'
import type * as shapes from './shapes.ts'

const ModelProvider = builder.objectRef<shapes.ModelProvider>('ModelProvider').implement({
  fields: (t) => ({
    name: t.exposeString('name'),
    api: t.exposeString('api'),
    baseUrl: t.exposeString('baseUrl', {
      nullable: true,
      description: 'Null if the default URL of the API is used.',
    }),
    hasKey: t.exposeBoolean('hasKey', { description: 'Whether an API key is set. The key itself is never returned.' }),
    ready: t.boolean({
      description:
        'Whether a model of this provider can be called now. True if the last request for its list of models succeeded, and no later test call was refused because of the key.',
      resolve: async (provider) => (await provider.status()).ready,
    }),
    notReadyReason: t.string({
      nullable: true,
      description: 'Why the provider is not ready. Null if it is ready.',
      resolve: async (provider) => (await provider.status()).notReadyReason,
    }),
    fromEnvironment: t.exposeBoolean('fromEnvironment', {
      description: 'True if an environment variable configures the provider, which the API then cannot change.',
    }),
    models: t.stringList({
      description: 'Model names that the provider lists; empty if it cannot list them.',
      resolve: async (provider) => (await provider.status()).models,
    }),
    restsUntil: t.expose('restsUntil', {
      type: 'DateTime',
      nullable: true,
      description:
        'Set after five failures within a minute. Until this time, agents with a fallback model skip the provider; other agents still call it.',
    }),
  }),
})

builder.queryFields((t) => ({
  modelProviders: t.field({
    type: [ModelProvider],
    nullable: true,
    description:
      'The providers that environment variables configure, those that admins added, and `openai`, `openai.chat` and `demo`. Null unless the viewer is an admin.',
    resolve: (_, __, { domain, viewer }) => (isAdmin(viewer) ? domain.modelProviders.list() : null),
  }),
  defaultModel: t.string({
    nullable: true,
    description:
      'The model of agents that are created without one. A provider that an admin added is considered only once it has answered a request. Null unless the viewer is an admin.',
    resolve: (_, __, { domain, viewer }) => (isAdmin(viewer) ? domain.modelProviders.defaultModel() : null),
  }),
}))

const SetModelProviderInput = builder.inputType('SetModelProviderInput', {
  fields: (t) => ({
    name: t.string({ required: true, description: 'The part before the colon in model names.' }),
    api: t.string({ required: true, description: '`openai`, `openai-chat`, `anthropic` or `google`.' }),
    baseUrl: t.string({
      description:
        'The URL with its version path, as in `https://api.example.com/v1`. Null means the default URL of the API. If absent, the stored URL remains; a new provider gets the default URL.',
    }),
    apiKey: t.string({
      description:
        'Stored encrypted, never returned. Null means no key. If absent, the stored key remains. A change of `api` or `baseUrl` requires this field if a key is stored.',
    }),
  }),
})

const SetModelProviderPayload = builder
  .objectRef<{ modelProvider: shapes.ModelProvider }>('SetModelProviderPayload')
  .implement({
    fields: (t) => ({ modelProvider: t.expose('modelProvider', { type: ModelProvider }) }),
  })

const DeleteModelProviderInput = builder.inputType('DeleteModelProviderInput', {
  fields: (t) => ({ name: t.string({ required: true }) }),
})

const DeleteModelProviderPayload = builder
  .objectRef<{ deletedName: string }>('DeleteModelProviderPayload')
  .implement({ fields: (t) => ({ deletedName: t.exposeString('deletedName') }) })

const TestModelProviderInput = builder.inputType('TestModelProviderInput', {
  fields: (t) => ({
    name: t.string({ required: true }),
    model: t.string({
      required: true,
      description: "The provider's own name for the model, without the prefix `<provider>:`.",
    }),
  }),
})

const TestModelProviderPayload = builder
  .objectRef<{ ok: boolean; text: string }>('TestModelProviderPayload')
  .implement({
    fields: (t) => ({
      ok: t.exposeBoolean('ok'),
      text: t.exposeString('text', {
        description: "The model's answer, or the provider's own error with secrets removed.",
      }),
    }),
  })

builder.mutationFields((t) => ({
  setModelProvider: t.field({
    type: SetModelProviderPayload,
    description:
      'Admins only. Adds a model provider, or changes one; agents can use its models at once, without a restart. Runs that have begun continue with the previous settings of the provider. ConflictError: an environment variable configures the provider, or the provider is built in.',
    errors: { types: [BadInputError, ConflictError, ForbiddenError] },
    args: { input: t.arg({ type: SetModelProviderInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return { modelProvider: await domain.modelProviders.save(viewer, input) }
    },
  }),
  deleteModelProvider: t.field({
    type: DeleteModelProviderPayload,
    description:
      'Admins only. Deletes a model provider and its key. Runs of agents that still use its models fail, and their `error` says why. ConflictError: an environment variable configures the provider, or the provider is built in.',
    errors: { types: [ConflictError, ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: DeleteModelProviderInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.modelProviders.delete(viewer, input.name)
    },
  }),
  testModelProvider: t.field({
    type: TestModelProviderPayload,
    description:
      'Admins only. Calls a model once, for at most 20 s, and returns its answer or the error. The call costs a few tokens.',
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: TestModelProviderInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.modelProviders.test(viewer, input)
    },
  }),
}))
