import { hintOn } from '../rules/plain-text.ts'
import { builder } from './builder.ts'
import { connectionOf, idCursorWithin, idPageRequest, sizeOfPage } from './connections.ts'
import { RunInternals, StepRecord, TokenUsage } from './refs.ts'
import type * as shapes from './shapes.ts'
import { usageOf } from './token-usage.ts'

RunInternals.implement({
  description: 'What a run sent to its models, and on whose behalf it works. Admins only.',
  fields: (t) => ({
    steps: t.connection(
      {
        type: StepRecord,
        description: 'What each step sent to the model and what the model returned, in order.',
        complexity: sizeOfPage(),
        async resolve({ runId }, page, { loaders }) {
          const request = idPageRequest('stp', page, runId)
          return connectionOf(await loaders.stepPages.load({ parentId: runId, request }), idCursorWithin(runId))
        },
      },
      { name: 'StepRecordConnection' },
      { name: 'StepRecordEdge' },
    ),
    hint: t.string({
      nullable: true,
      description: 'If the model wrote text that was not posted, explains why and what to do about it. Null otherwise.',
      async resolve({ runId }, _, { loaders }) {
        if (!(await loaders.unheard.load(runId))) return null
        const run = await loaders.runs.load(runId)
        if (run?.summary == null) return null
        const agent = await loaders.agents.load(run.agentId)
        return hintOn({ summary: run.summary, plainText: agent?.plainText ?? 'INTERNAL' })
      },
    }),
  }),
})

const FailedModel = builder.objectRef<shapes.StepRecord['failedModels'][number]>('FailedModel').implement({
  fields: (t) => ({
    model: t.exposeString('model'),
    error: t.exposeString('error', { description: 'Why the model failed or was skipped.' }),
  }),
})

StepRecord.implement({
  description: 'One generation of a model, with the tool calls that it contains.',
  fields: (t) => ({
    id: t.exposeID('id'),
    index: t.exposeInt('index', { description: '0-based.' }),
    model: t.exposeString('model', { description: 'The model that generated the response.' }),
    failedModels: t.expose('failedModels', {
      type: [FailedModel],
      description: 'The models that failed or were skipped before `model`, in order.',
    }),
    instructions: t.exposeString('instructions'),
    messages: t.expose('messages', { type: 'JSON', description: 'AI SDK ModelMessage[] as sent to the model.' }),
    activeTools: t.exposeStringList('activeTools'),
    response: t.expose('response', { type: 'JSON', description: 'AI SDK ModelMessage[] that the step added.' }),
    finishReason: t.exposeString('finishReason'),
    usage: t.field({ type: TokenUsage, resolve: usageOf }),
    startedAt: t.expose('startedAt', { type: 'DateTime', description: 'When the model was called.' }),
    msToFirstChunk: t.exposeInt('msToFirstChunk', { nullable: true }),
    durationMs: t.exposeInt('durationMs'),
  }),
})
