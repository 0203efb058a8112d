import type { NotificationSettings as Settings } from '../flows/notification-settings.ts'
import { BadInputError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { existing } from './batch.ts'
import { builder } from './builder.ts'
import { renewed } from './context.ts'
import { Space, Viewer } from './refs.ts'
import type * as shapes from './shapes.ts'

const NotifyLevelType = builder.enumType('NotifyLevel', {
  description:
    'The messages in a space of which a member is notified. Regardless of the level, members are notified of decisions that wait for them.',
  values: {
    ALL: { description: 'Every message.' },
    MENTIONS: { description: 'Messages that mention the member, and failed runs that worked on behalf of the member.' },
    NOTHING: {},
  } as const,
})

builder.objectField(Space, 'notifyLevel', (t) =>
  t.field({
    type: NotifyLevelType,
    description: "The viewer's setting for this space; default MENTIONS. ALL if the viewer is not human.",
    resolve: ({ id }, _, { loaders }) => loaders.notifyLevel.load(id),
  }),
)

const NotificationSettings = builder.objectRef<Settings>('NotificationSettings').implement({
  description: 'How the viewer is notified, in addition to ViewerNotice events.',
  fields: (t) => ({
    push: t.exposeBoolean('push', { description: "By Web Push, to each of the viewer's push subscriptions." }),
    mail: t.exposeBoolean('mail', { description: 'By email. On by default for people with an email address.' }),
    notifyAfterMinutes: t.exposeInt('notifyAfterMinutes', {
      description: 'An email is sent only for notices that are still open after this number of minutes.',
    }),
  }),
})

builder.objectFields(Viewer, (t) => ({
  notificationSettings: t.field({
    type: NotificationSettings,
    nullable: true,
    description: 'Null unless the viewer is a human.',
    resolve: (viewer, _, { domain }) => domain.notifications.settings(viewer),
  }),
  pushPublicKey: t.string({
    nullable: true,
    description: 'VAPID public key for Web Push. Null if this server cannot send push messages.',
    resolve: (_, __, { domain }) => domain.notifications.pushPublicKey,
  }),
}))

const SetNotifyLevelInput = builder.inputType('SetNotifyLevelInput', {
  fields: (t) => ({
    spaceId: t.id({ required: true }),
    level: t.field({ type: NotifyLevelType, required: true }),
  }),
})

const SetNotifyLevelPayload = builder
  .objectRef<{ space: shapes.Space }>('SetNotifyLevelPayload')
  .implement({ fields: (t) => ({ space: t.expose('space', { type: Space }) }) })

const SetNotificationSettingsInput = builder.inputType('SetNotificationSettingsInput', {
  description: 'Absent settings do not change.',
  fields: (t) => ({
    push: t.boolean(),
    mail: t.boolean(),
    notifyAfterMinutes: t.int({ description: 'From 0 (at once) to 10080 (a week).' }),
  }),
})

const SetNotificationSettingsPayload = builder
  .objectRef<{ notificationSettings: Settings }>('SetNotificationSettingsPayload')
  .implement({
    fields: (t) => ({ notificationSettings: t.expose('notificationSettings', { type: NotificationSettings }) }),
  })

const AddPushSubscriptionInput = builder.inputType('AddPushSubscriptionInput', {
  description: "A browser's push subscription, as returned by `PushSubscription.toJSON()`.",
  fields: (t) => ({
    endpoint: t.string({ required: true }),
    p256dh: t.string({ required: true }),
    auth: t.string({ required: true }),
  }),
})

const AddPushSubscriptionPayload = builder
  .objectRef<{ id: string }>('AddPushSubscriptionPayload')
  .implement({ fields: (t) => ({ id: t.exposeID('id') }) })

const RemovePushSubscriptionInput = builder.inputType('RemovePushSubscriptionInput', {
  fields: (t) => ({ endpoint: t.string({ required: true }) }),
})

const RemovePushSubscriptionPayload = builder
  .objectRef<{ removedEndpoint: string }>('RemovePushSubscriptionPayload')
  .implement({ fields: (t) => ({ removedEndpoint: t.exposeString('removedEndpoint') }) })

builder.mutationFields((t) => ({
  setNotifyLevel: t.field({
    type: SetNotifyLevelPayload,
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: SetNotifyLevelInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer, loaders } = renewed(context)
      const [space] = await loaders.seenSpaces([await domain.notifications.setLevel(viewer, input)])
      return { space: existing(space) }
    },
  }),
  setNotificationSettings: t.field({
    type: SetNotificationSettingsPayload,
    errors: { types: [BadInputError, ForbiddenError] },
    args: { input: t.arg({ type: SetNotificationSettingsInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return { notificationSettings: await domain.notifications.setSettings(viewer, input) }
    },
  }),
  addPushSubscription: t.field({
    type: AddPushSubscriptionPayload,
    description:
      "Adds this browser's push subscription, or updates its keys. The subscription is removed when the session or token of this request ends. A human can have at most 20 subscriptions.",
    errors: {
      types: [BadInputError, ForbiddenError, LimitExceededError],
      union: { description: 'BadInputError: the endpoint is not a public https address.' },
    },
    args: { input: t.arg({ type: AddPushSubscriptionInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.notifications.addPushSubscription(viewer, input)
    },
  }),
  removePushSubscription: t.field({
    type: RemovePushSubscriptionPayload,
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: RemovePushSubscriptionInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.notifications.removePushSubscription(viewer, input)
    },
  }),
}))
