import { createHash } from 'node:crypto'
import type { PushKeyPair } from '../access/push-keys.ts'
import type { HumanViewer, Viewer } from '../access/viewer.ts'
import type { Space } from '../generated/prisma/client.ts'
import { BadInputError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { newId, prefixOf } from '../lib/ids.ts'
import { checkInteger } from '../lib/validate.ts'
import type { Platform } from '../platform/platform.ts'
import { LEAST_MINUTES, MOST_MINUTES, MOST_SUBSCRIPTIONS, type NotifyLevel } from '../rules/notices.ts'
import { faultOfSubscription, type GivenSubscription } from '../rules/push-endpoint.ts'
import type { HumanInSpace } from '../spaces/reading.ts'
import { setNotifyLevel } from '../stores/membership-store.ts'
import { readNotificationSettings } from '../stores/notice-readers.ts'
import { changeNotificationSettings, lockNotificationSettings } from '../stores/notification-settings-store.ts'
import { deletePushSubscriptions, savePushSubscription } from '../stores/push-store.ts'
import { NO_SUCH_SPACE } from '../stores/space-store.ts'

/** The ways in which a human wants to be notified. */
export interface NotificationSettings {
  push: boolean
  mail: boolean
  notifyAfterMinutes: number
}

export type NotificationSettingsInput = { [Name in keyof NotificationSettings]?: NotificationSettings[Name] | null }

/** Lets humans configure their notifications. */
export interface Notifications {
  /** The VAPID public key that browsers need for a push subscription; null if this server cannot send push messages. */
  readonly pushPublicKey: string | null
  /** Returns the viewer's settings, or null if the viewer is not a human. */
  settings(viewer: Viewer): Promise<NotificationSettings | null>
  /**
   * Changes the given settings.
   * @throws ForbiddenError unless the viewer is a human; BadInputError
   */
  setSettings(viewer: Viewer, input: NotificationSettingsInput): Promise<NotificationSettings>
  /** Returns the notification levels by human and space. The map has no entry for a human who is not a member. */
  levelsOf(asked: readonly HumanInSpace[]): Promise<Map<string, Map<string, NotifyLevel>>>
  /** @throws ForbiddenError unless the viewer is a human; NotFoundError for a space of which the viewer is not a member */
  setLevel(viewer: Viewer, input: { spaceId: string; level: NotifyLevel }): Promise<Space>
  /**
   * Adds the viewer's browser, or updates its keys. The subscription ends with the viewer's session or token. If the
   * keys show that another human has subscribed with the same browser, ends that subscription immediately.
   * @throws ForbiddenError unless the viewer is a human; BadInputError; LimitExceededError
   */
  addPushSubscription(viewer: Viewer, input: GivenSubscription): Promise<{ id: string }>
  /** @throws ForbiddenError unless the viewer is a human; NotFoundError for an endpoint that the viewer has not added */
  removePushSubscription(viewer: Viewer, input: { endpoint: string }): Promise<{ removedEndpoint: string }>
}

const HUMANS_ONLY = 'Only humans receive notifications: use the token of a human.'
const NO_SUCH_SUBSCRIPTION = 'You have no push subscription with this endpoint.'

const hashOf = (endpoint: string) => createHash('sha256').update(endpoint).digest('hex')

export function createNotifications(
  { db, clock }: Pick<Platform, 'db' | 'clock'>,
  pushKeys: PushKeyPair | null,
): Notifications {
  return {
    pushPublicKey: pushKeys?.publicKey ?? null,
    async settings(viewer) {
      return viewer.scope === 'HUMAN' ? readNotificationSettings(db.prisma, viewer.id) : null
    },
    async setSettings(viewer, { push, mail, notifyAfterMinutes }) {
      const { id } = requireHuman(viewer)
      const change = {
        ...(push == null ? {} : { push }),
        ...(mail == null ? {} : { mail }),
        ...(notifyAfterMinutes == null
          ? {}
          : {
              notifyAfterMinutes: checkInteger(
                notifyAfterMinutes,
                LEAST_MINUTES,
                MOST_MINUTES,
                'input.notifyAfterMinutes',
              ),
            }),
      }
      return db.transaction(async (tx) => {
        await changeNotificationSettings(tx, id, change)
        return readNotificationSettings(tx, id)
      })
    },
    async levelsOf(asked) {
      const rows = await db.prisma.$queryRaw<{ humanId: string; spaceId: string; level: NotifyLevel }[]>`
        SELECT m."entityId" AS "humanId", m."spaceId", m."notifyLevel"::text AS level FROM "Membership" m JOIN unnest(
          ${asked.map(({ humanId }) => humanId)}::text[], ${asked.map(({ spaceId }) => spaceId)}::text[])
          AS asked("entityId", "spaceId") USING ("entityId", "spaceId")`
      const byHuman = Map.groupBy(rows, ({ humanId }) => humanId)
      return new Map([...byHuman].map(([id, own]) => [id, new Map(own.map(({ spaceId, level }) => [spaceId, level]))]))
    },
    async setLevel(viewer, { spaceId, level }) {
      const { id } = requireHuman(viewer)
      if (prefixOf(spaceId) !== 'spc') throw new NotFoundError(NO_SUCH_SPACE)
      const isMember = await setNotifyLevel(db.prisma, { spaceId, entityId: id }, level)
      const space = isMember ? await db.prisma.space.findFirst({ where: { id: spaceId, deletedAt: null } }) : null
      if (space === null) throw new NotFoundError(NO_SUCH_SPACE)
      return space
    },
    async addPushSubscription(viewer, given) {
      const { id: humanId, tokenId } = requireHuman(viewer)
      const fault = faultOfSubscription(given)
      if (fault !== null) throw new BadInputError(fault.message, `input.${fault.field}`)
      const { endpoint, p256dh, auth } = given
      const hash = hashOf(endpoint)
      const id = await db.transaction(async (tx) => {
        await lockNotificationSettings(tx, humanId)
        const count = await tx.pushSubscription.count({ where: { humanId, hash: { not: hash } } })
        if (count >= MOST_SUBSCRIPTIONS)
          throw new LimitExceededError(
            `You have ${MOST_SUBSCRIPTIONS} push subscriptions, the maximum: remove one in another browser first.`,
          )
        await deletePushSubscriptions(tx, { hash, p256dh, auth, humanId: { not: humanId } })
        const row = {
          id: newId('psh'),
          humanId,
          endpoint,
          hash,
          p256dh,
          auth,
          tokenId,
          createdAt: new Date(clock.now()),
        }
        return savePushSubscription(tx, row)
      })
      return { id }
    },
    async removePushSubscription(viewer, { endpoint }) {
      const { id: humanId } = requireHuman(viewer)
      const removed = await deletePushSubscriptions(db.prisma, { humanId, hash: hashOf(endpoint) })
      if (removed === 0) throw new NotFoundError(NO_SUCH_SUBSCRIPTION)
      return { removedEndpoint: endpoint }
    },
  }
}

function requireHuman(viewer: Viewer): HumanViewer {
  if (viewer.scope !== 'HUMAN') throw new ForbiddenError(HUMANS_ONLY)
  return viewer
}
