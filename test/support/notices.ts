import { afterAll, beforeAll, beforeEach } from 'vitest'
import type { TestApplicationOptions } from './application.ts'
import type { LiveEvents, ParleyClient } from './parley-client.ts'
import { type Browser, type PushService, startPushService } from './push-service.ts'
import { startTestServer, type TestServer } from './served.ts'
import { type Named, openStage, type Person, type Read, type Stage } from './stage.ts'

const ADD = `mutation ($input: AddPushSubscriptionInput!) { addPushSubscription(input: $input) {
  __typename ... on AddPushSubscriptionPayload { id } ... on Error { message } ... on BadInputError { field } } }`
const REMOVE = `mutation ($input: RemovePushSubscriptionInput!) { removePushSubscription(input: $input) {
  __typename ... on RemovePushSubscriptionPayload { removedEndpoint } ... on Error { message } } }`
const SETTINGS = `mutation ($input: SetNotificationSettingsInput!) { setNotificationSettings(input: $input) {
  __typename ... on SetNotificationSettingsPayload { notificationSettings { push mail notifyAfterMinutes } }
  ... on Error { message } ... on BadInputError { field } } }`
const LEVEL = `mutation ($input: SetNotifyLevelInput!) { setNotifyLevel(input: $input) {
  __typename ... on SetNotifyLevelPayload { space { id notifyLevel } } ... on Error { message } } }`
const NOTICES = `subscription { viewerEvents {
  __typename ... on ViewerNotice { at kind spaceId messageId toolCallId runId } } }`

type Asker = { client: ParleyClient }

/** People's notification settings, and the notices that reach them. */
export interface Notified {
  add(person: Asker, input: object): Promise<Read>
  remove(person: Asker, endpoint: string): Promise<Read>
  set(person: Asker, input: object): Promise<Read>
  level(person: Asker, space: Named, level: string): Promise<Read>
  /** Adds a browser that receives the person's push messages. */
  browser(person: Person): Promise<Browser>
  /** Returns the notices in the person's open page. */
  page(person: Person): Promise<{ notices(): Read[] }>
}

export function notifiedOn({ ask }: Stage, push: PushService): Notified {
  const add: Notified['add'] = ({ client }, input) => ask(client, ADD, { input })
  return {
    add,
    remove: ({ client }, endpoint) => ask(client, REMOVE, { input: { endpoint } }),
    set: ({ client }, input) => ask(client, SETTINGS, { input }),
    level: ({ client }, space, level) => ask(client, LEVEL, { input: { spaceId: space.id, level } }),
    async browser(person) {
      const browser = push.browser()
      const added = await add(person, browser.input)
      if (added.__typename !== 'AddPushSubscriptionPayload') throw new Error(JSON.stringify(added))
      return browser
    },
    async page({ client }) {
      const events: LiveEvents<Read> = client.subscribe(NOTICES, {})
      await events.first(({ viewerEvents }: Read) => viewerEvents.__typename === 'ViewerSnapshot')
      return {
        notices: () =>
          events.seen
            .map(({ viewerEvents }) => viewerEvents)
            .filter(({ __typename }) => __typename === 'ViewerNotice')
            .map(({ __typename, at, ...ids }) => ids),
      }
    },
  }
}

/** A server with a push service for the tests of a `describe`. */
export interface NoticePlay extends Notified {
  parley: TestServer
  stage: Stage
  push: PushService
}

export function playNotices(stack: TestApplicationOptions['stack'], settings: Record<string, string> = {}): NoticePlay {
  const play = {} as NoticePlay
  beforeAll(async () => {
    play.push = await startPushService()
    play.parley = await startTestServer({ stack, settings, push: play.push.network })
    play.stage = await openStage(play.parley)
    Object.assign(play, notifiedOn(play.stage, play.push))
  })
  afterAll(async () => {
    await play.parley?.close()
    await play.push?.close()
  })
  beforeEach(() => {
    play.parley.models.reset()
    play.parley.models.script(() => [{ text: 'Nothing to do.' }])
  })
  return play
}
