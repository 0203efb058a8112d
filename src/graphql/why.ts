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
      description: 'Something the viewer may not see: no id and no `at`. Adjacent hidden steps are combined into one.',
    }
  return kind === 'ERASED' ? { description: 'Something that was erased, or deleted by retention.' } : {}
}

const WhyStep = builder.objectRef<Step>('WhyStep').implement({
  fields: (t) => ({
    kind: t.expose('kind', { type: WhyKind }),
    id: t.exposeID('id', { nullable: true, description: 'Null for HIDDEN and ERASED.' }),
    text: t.exposeString('text', { description: 'One line in words.' }),
    at: t.expose('at', { type: 'DateTime', nullable: true }),
    causes: t.exposeIntList('causes', { description: 'The causes of this step, as indexes into `WhyTrace.steps`.' }),
  }),
})

const WhyTrace = builder.objectRef<{ steps: Step[] }>('WhyTrace').implement({
  description: 'The first step is the object to explain.',
  fields: (t) => ({
    steps: t.field({ type: [WhyStep], description: 'At most 500.', complexity: 500, resolve: ({ steps }) => steps }),
  }),
})

builder.queryField('why', (t) =>
  t.field({
    type: WhyTrace,
    nullable: true,
    description:
      'From a message, tool call, run or memory back to the people, plans or services that caused it. Null if the viewer may not see it.',
    args: { id: t.arg.id({ required: true }) },
    resolve: (_, { id }, { domain, viewer }) => domain.why.trace(viewer, String(id)),
  }),
)
