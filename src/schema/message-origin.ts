import { builder } from './builder.ts'
import { TriggerTypeType } from './enums.ts'
import { Message } from './refs.ts'
import type * as shapes from './shapes.ts'

const MessageOrigin = builder.objectRef<NonNullable<shapes.Message['origin']>>('MessageOrigin').implement({
  description: "The four last fields are null where the viewer is not a member of the trigger's space.",
  fields: (t) => ({
    triggerType: t.expose('triggerType', { type: TriggerTypeType }),
    triggerName: t.exposeString('triggerName', {
      nullable: true,
      description: "The service's name for a SERVICE trigger, the plan's for a PLAN trigger.",
    }),
    triggerSpaceId: t.exposeID('triggerSpaceId', { nullable: true }),
    triggerSpaceName: t.exposeString('triggerSpaceName', { nullable: true }),
    triggerSenderName: t.exposeString('triggerSenderName', { nullable: true }),
    triggerMessage: t.exposeString('triggerMessage', { nullable: true }),
  }),
})

const HIDDEN = { triggerSpaceId: null, triggerSpaceName: null, triggerSenderName: null, triggerMessage: null }

builder.objectField(Message, 'origin', (t) =>
  t.field({
    type: MessageOrigin,
    nullable: true,
    description: 'Why it was posted, when it was posted from a run that another space, a plan or a service triggered.',
    async resolve({ origin }, _, { loaders }) {
      if (origin === null || origin.triggerSpaceId === null) return origin
      const space = await loaders.visible.spaces.load(origin.triggerSpaceId)
      return space === null ? { ...origin, ...HIDDEN } : origin
    },
  }),
)
