import { loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { connectionOf, idCursor, idCursorWithin, idPageRequest, sizeOfPage } from './connections.ts'
import { RunStatusType, RunStopReasonType } from './enums.ts'
import { Entity, Run } from './refs.ts'
import { RunConnection, RunEdge } from './run-connection.ts'

/** Where runs come from, what they set off and why they ended; and finding them. */
builder.objectFields(Run, (t) => ({
  stopReason: t.expose('stopReason', {
    type: RunStopReasonType,
    nullable: true,
    description: 'Why it is over; null while it is not.',
  }),
  stoppedBy: t.field({
    type: Entity,
    nullable: true,
    description:
      'The human or agent that stopped it; null where nobody did (handing on too), where it was the operator, or where the viewer may not see who.',
    resolve: ({ stoppedById }, _, { loaders }) => loadOptional(loaders.visible.entities, stoppedById),
  }),
  parent: t.field({
    type: Run,
    nullable: true,
    description: 'The run that set this one off; null where there is none, or not for the viewer.',
    resolve: ({ parentRunId }, _, { loaders }) => loadOptional(loaders.visible.runs, parentRunId),
  }),
  children: t.connection(
    {
      type: Run,
      description: 'The runs that this one set off and that the viewer may see, oldest first.',
      complexity: sizeOfPage(),
      async resolve({ id: parentId }, page, { loaders }) {
        const request = idPageRequest('run', page, parentId)
        const { items, ...ends } = await loaders.childPages.load({ parentId, request })
        return connectionOf({ ...ends, items: await loaders.seenRuns(items) }, idCursorWithin(parentId))
      },
    },
    RunConnection,
    RunEdge,
  ),
  retryOf: t.field({
    type: Run,
    nullable: true,
    description: 'The failed run that this one repeats.',
    resolve: ({ retryOfId }, _, { loaders }) => loadOptional(loaders.visible.runs, retryOfId),
  }),
  retriedBy: t.field({
    type: Run,
    nullable: true,
    description: 'The run that repeats this one.',
    resolve: async ({ id }, _, { loaders }) =>
      loadOptional(loaders.visible.runs, (await loaders.retries.load(id))?.id ?? null),
  }),
}))

const RunFilter = builder.inputType('RunFilter', {
  fields: (t) => ({
    agentId: t.id(),
    spaceId: t.id({ description: 'Triggered from it or written in it.' }),
    rootId: t.id(),
    status: t.field({ type: [RunStatusType] }),
    since: t.field({ type: 'DateTime', description: 'Queued at or after.' }),
  }),
})

builder.queryField('runs', (t) =>
  t.connection(
    {
      type: Run,
      description: 'The runs that the viewer may see, newest first.',
      complexity: sizeOfPage(),
      args: { filter: t.arg({ type: RunFilter }) },
      async resolve(_, { filter, ...page }, { domain, viewer, loaders }) {
        const found = await domain.runReading.page(viewer, filter ?? {}, idPageRequest('run', page))
        return connectionOf({ ...found, items: await loaders.seenRuns(found.items) }, idCursor)
      },
    },
    RunConnection,
    RunEdge,
  ),
)
