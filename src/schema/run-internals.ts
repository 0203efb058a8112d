import { builder } from './builder.ts'
import { connectionOf, idCursorWithin, idPageRequest, sizeOfPage } from './connections.ts'
import { RunInternals, StepRecord, TokenUsage } from './refs.ts'
import type * as shapes from './shapes.ts'
import { usageOf } from './token-usage.ts'

RunInternals.implement({
  fields: (t) => ({
    steps: t.connection(
      {
        type: StepRecord,
        description: 'What each step was sent and what came back, in order.',
        complexity: sizeOfPage(),
        async resolve({ runId }, page, { loaders }) {
          const request = idPageRequest('stp', page, runId)
          return connectionOf(await loaders.stepPages.load({ parentId: runId, request }), idCursorWithin(runId))
        },
      },
      { name: 'StepRecordConnection' },
      { name: 'StepRecordEdge' },
    ),
  }),
})

const FailedModel = builder.objectRef<shapes.StepRecord['failedModels'][number]>('FailedModel').implement({
  fields: (t) => ({
    model: t.exposeString('model'),
    error: t.exposeString('error', { description: 'Why it did not speak.' }),
  }),
})

StepRecord.implement({
  fields: (t) => ({
    id: t.exposeID('id'),
    index: t.exposeInt('index', { description: '0-based.' }),
    model: t.exposeString('model', { description: 'The one that spoke.' }),
    failedModels: t.expose('failedModels', {
      type: [FailedModel],
      description: 'The models that were asked or passed over before it, in order.',
    }),
    instructions: t.exposeString('instructions'),
    messages: t.expose('messages', { type: 'JSON', description: 'AI SDK ModelMessage[] as sent.' }),
    activeTools: t.exposeStringList('activeTools'),
    response: t.expose('response', { type: 'JSON', description: 'AI SDK ModelMessage[] that the step added.' }),
    finishReason: t.exposeString('finishReason'),
    usage: t.field({ type: TokenUsage, resolve: usageOf }),
    msToFirstChunk: t.exposeInt('msToFirstChunk', { nullable: true }),
    durationMs: t.exposeInt('durationMs'),
  }),
})
