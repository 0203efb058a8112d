import { builder } from './builder.ts'
import { TriggerTypeType } from './enums.ts'
import { Message } from './refs.ts'
import type * as shapes from './shapes.ts'

const MessageOrigin = builder.objectRef<NonNullable<shapes.Message['origin']>>('MessageOrigin').implement({
  description:
    "`triggerSpaceId`, `triggerSpaceName`, `triggerSenderName` and `triggerMessage` are null if the viewer is not a member of the trigger's space.",
  fields: (t) => ({
    triggerType: t.expose('triggerType', { type: TriggerTypeType }),
    triggerName: t.exposeString('triggerName', {
      nullable: true,
      description: 'Name of the service (SERVICE trigger) or of the plan (PLAN trigger).',
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
    description:
      'What triggered the run that posted the message, if the trigger was another space, a plan or a service.',
    async resolve({ origin }, _, { loaders }) {
      if (origin === null || origin.triggerSpaceId === null) return origin
      const space = await loaders.visible.spaces.load(origin.triggerSpaceId)
      return space === null ? { ...origin, ...HIDDEN } : origin
    },
  }),
)
