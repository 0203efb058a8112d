import { loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { mayHear } from './confidence.ts'
import type { Context } from './context.ts'
import { TriggerTypeType } from './enums.ts'
import { Message, Run, Space } from './refs.ts'
import type * as shapes from './shapes.ts'

/** Whether the viewer may read the content of a run's trigger. */
async function seesTrigger(run: shapes.Run, { domain, viewer, loaders, shownIn }: Context): Promise<boolean> {
  if (domain.visibility.runThoughts(viewer, run)) return true
  // The trigger of a think cycle only states the number of events.
  if (run.triggerSpaceId === null) return run.triggerType === 'INBOX'
  if (run.triggerSpaceId === shownIn) return true
  return (await loaders.visible.spaces.load(run.triggerSpaceId)) !== null
}

/**
 * Returns a one-line description of the run's trigger. Viewers who may not read the trigger's content get only its
 * sender or kind.
 */
async function triggerSummaryFor(run: shapes.Run, context: Context): Promise<string> {
  if (await seesTrigger(run, context)) return run.triggerSummary
  switch (run.triggerType) {
    case 'SPACE_MESSAGE': {
      const sender = run.triggerSenderId && (await context.loaders.entities.load(run.triggerSenderId))
      return `${sender ? sender.name : 'Somebody'} in another space`
    }
    case 'PLAN':
      // An agent may have chosen the plan's name, so the name may come from a confidential space.
      return (await mayHear([...run.places, ...run.label], context)) ? `The plan "${run.triggerName}"` : 'A plan'
    case 'SERVICE':
      return `The service "${run.triggerName}"`
    case 'INBOX':
      return 'Its inbox'
  }
}

builder.objectFields(Run, (t) => ({
  triggerType: t.expose('triggerType', { type: TriggerTypeType }),
  triggerSummary: t.string({
    description:
      'One line that says who or what started the run, and why. The reason is omitted for viewers who may not see it.',
    resolve: (run, _, context) => triggerSummaryFor(run, context),
  }),
  triggerSpace: t.field({
    type: Space,
    nullable: true,
    description:
      'Null if no space triggered the run, or if the viewer may not see the space. The same holds for `triggerMessage` and `activeSpace`.',
    resolve: ({ triggerSpaceId }, _, { loaders }) => loadOptional(loaders.visible.spaces, triggerSpaceId),
  }),
  triggerMessage: t.field({
    type: Message,
    nullable: true,
    resolve: ({ triggerMessageId }, _, { loaders }) => loadOptional(loaders.visible.messages, triggerMessageId),
  }),
  depth: t.exposeInt('depth', {
    description: 'Number of agent-to-agent hops before this run; 0 if a human, a plan or a service triggered it.',
  }),
  rootId: t.exposeID('rootId', {
    description: 'The human message, plan firing or service call that started the tree of runs.',
  }),
}))
