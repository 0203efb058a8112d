import { loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { connectionOf, idCursor, idCursorWithin, idPageRequest, sizeOfPage } from './connections.ts'
import { RunStatusType, RunStopReasonType } from './enums.ts'
import { MessageConnection, MessageEdge } from './message-connection.ts'
import { Entity, Message, Run } from './refs.ts'
import { RunConnection, RunEdge } from './run-connection.ts'

/**
 * Defines the fields of `Run` for the stop reason, for the runs before and after the run, and for its messages.
 * Also defines the `runs` query.
 */
builder.objectFields(Run, (t) => ({
  stopReason: t.expose('stopReason', {
    type: RunStopReasonType,
    nullable: true,
    description: 'Why the run ended. Null until then.',
  }),
  stoppedBy: t.field({
    type: Entity,
    nullable: true,
    description:
      'The human or agent that stopped the run. Null if the run was not stopped, if the operator stopped it, or if the viewer may not see that human or agent. Also null if the stop reason is HANDED_ON.',
    resolve: ({ stoppedById }, _, { loaders }) => loadOptional(loaders.visible.entities, stoppedById),
  }),
  parent: t.field({
    type: Run,
    nullable: true,
    description: 'The run that started this one. Null if there is none, or the viewer may not see it.',
    resolve: ({ parentRunId }, _, { loaders }) => loadOptional(loaders.visible.runs, parentRunId),
  }),
  children: t.connection(
    {
      type: Run,
      description: 'The runs that this run started and that the viewer may see, oldest first.',
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
  messages: t.connection(
    {
      type: Message,
      description: 'The messages that the run posted and that the viewer may see, oldest first.',
      complexity: sizeOfPage(),
      async resolve({ id: parentId }, page, { loaders }) {
        const request = idPageRequest('msg', page, parentId)
        const { items: ids, ...ends } = await loaders.postedPages.load({ parentId, request })
        const found = await Promise.all(ids.map((id) => loaders.visible.messages.load(id)))
        const items = found.filter((message) => message !== null)
        return connectionOf({ ...ends, items }, idCursorWithin(parentId))
      },
    },
    MessageConnection,
    MessageEdge,
  ),
  retryOf: t.field({
    type: Run,
    nullable: true,
    description: 'The failed run that this one retries.',
    resolve: ({ retryOfId }, _, { loaders }) => loadOptional(loaders.visible.runs, retryOfId),
  }),
  retriedBy: t.field({
    type: Run,
    nullable: true,
    description: 'The run that retries this one.',
    resolve: async ({ id }, _, { loaders }) =>
      loadOptional(loaders.visible.runs, (await loaders.retries.load(id))?.id ?? null),
  }),
}))

const RunFilter = builder.inputType('RunFilter', {
  fields: (t) => ({
    agentId: t.id(),
    spaceId: t.id({ description: 'Runs that were triggered from the space or posted in it.' }),
    rootId: t.id(),
    status: t.field({ type: [RunStatusType] }),
    since: t.field({ type: 'DateTime', description: 'Runs queued at or after this time.' }),
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
