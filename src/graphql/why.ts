import { type WhyStep as Step, WHY_KINDS } from '../rules/why.ts'
import { builder } from './builder.ts'

const WhyKind = builder.enumType('WhyKind', {
  values: Object.fromEntries(WHY_KINDS.map((kind) => [kind, descriptionOf(kind)])) as Record<
    (typeof WHY_KINDS)[number],
    { description?: string }
  >,
})

function descriptionOf(kind: (typeof WHY_KINDS)[number]): { description?: string } {
  if (kind === 'HIDDEN')
    return {
      description:
        'Something that the viewer may not see. `id` and `at` are null. Adjacent hidden steps are combined into one step.',
    }
  return kind === 'ERASED'
    ? { description: 'Something that was erased, or deleted when its retention period ended.' }
    : {}
}

const WhyStep = builder.objectRef<Step>('WhyStep').implement({
  fields: (t) => ({
    kind: t.expose('kind', { type: WhyKind }),
    id: t.exposeID('id', { nullable: true, description: 'Null for HIDDEN and ERASED.' }),
    text: t.exposeString('text', { description: 'A description of the step in one line.' }),
    at: t.expose('at', { type: 'DateTime', nullable: true }),
    causes: t.exposeIntList('causes', { description: 'The causes of this step, as indexes into `WhyTrace.steps`.' }),
  }),
})

const WhyTrace = builder.objectRef<{ steps: Step[] }>('WhyTrace').implement({
  description: 'A graph of causes. The first step is the object that the trace explains.',
  fields: (t) => ({
    steps: t.field({
      type: [WhyStep],
      description: 'A trace has at most 500 steps.',
      complexity: 500,
      resolve: ({ steps }) => steps,
    }),
  }),
})

builder.queryField('why', (t) =>
  t.field({
    type: WhyTrace,
    nullable: true,
    description:
      'Traces a message, tool call, run or memory back to the people, plans or services that caused it. Null if the viewer may not see that object.',
    args: { id: t.arg.id({ required: true }) },
    resolve: (_, { id }, { domain, viewer }) => domain.why.trace(viewer, String(id)),
  }),
)
