import type { AppendOptions } from '../broker/log.ts'
import { entityChannel, type SpaceLogEvent, spaceChannel, spaceTopic } from '../broker/topics.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import { NO_MESSAGE } from './announcer.ts'

/**
 * Publishes committed changes to a space and its members: to the space's event log, to subscribers of the space, and to
 * the channels of its members. Never throws, because subscribers that miss an event read the current state from the
 * database. With the key of a change, an event is appended only once.
 */
export interface SpacePublisher {
  /**
   * Publishes a new space to its members, and begins its topic after the messages that were copied into the space. In a
   * topic that has begun, every process detects messages that were committed but never announced.
   */
  created(space: { id: string; lastSeq: number }, memberIds: readonly string[]): Promise<void>
  /** Publishes that the name, description, routing or admin agent changed. */
  changed(spaceId: string, change?: string): Promise<void>
  joined(spaceId: string, entityId: string, change: string): Promise<void>
  left(spaceId: string, entityId: string, change: string): Promise<void>
  /** Publishes to the former members of a space that the space was deleted. */
  deleted(spaceId: string, memberIds: readonly string[]): Promise<void>
  /** Publishes that earlier messages changed, so that subscribers reload the space. */
  rewritten(spaceId: string): Promise<void>
  /** Publishes that a human's read marker moved. */
  read(spaceId: string, humanId: string): Promise<void>
}

type PublishingPlatform = Pick<Platform, 'log' | 'signals' | 'logger'>

export function createSpacePublisher({ log, signals, logger }: PublishingPlatform): SpacePublisher {
  async function append(spaceId: string, event: SpaceLogEvent, options: AppendOptions = {}): Promise<void> {
    try {
      await log.append(spaceTopic(spaceId), event, options)
    } catch (error) {
      logger.warn({ spaceId, event: event.type, error: messageOf(error) }, 'could not publish a space event')
    }
  }

  /** Publishes a change to subscribers of the space, and to subscribers of lists that contain the space. */
  const tellChanged = (spaceId: string, event: SpaceLogEvent, once?: string) =>
    Promise.all([append(spaceId, event, { once }), signals.publish(spaceChannel(spaceId), { type: 'changed' })])

  return {
    async created({ id: spaceId, lastSeq }, memberIds) {
      await Promise.all([
        append(spaceId, { type: 'MessagePosted', messageId: NO_MESSAGE }, { ordinal: lastSeq, isFirst: true }),
        ...memberIds.map((id) => signals.publish(entityChannel(id), { type: 'member-joined', spaceId })),
      ])
    },
    async changed(spaceId, change) {
      await tellChanged(spaceId, { type: 'SpaceUpdated' }, change)
    },
    async joined(spaceId, entityId, change) {
      await Promise.all([
        append(spaceId, { type: 'MemberJoined', entityId }, { once: change }),
        signals.publish(spaceChannel(spaceId), { type: 'member-joined', entityId }),
        signals.publish(entityChannel(entityId), { type: 'member-joined', spaceId }),
      ])
    },
    async left(spaceId, entityId, change) {
      await Promise.all([
        append(spaceId, { type: 'MemberLeft', entityId }, { once: change }),
        signals.publish(spaceChannel(spaceId), { type: 'member-left', entityId }),
        signals.publish(entityChannel(entityId), { type: 'member-left', spaceId }),
      ])
    },
    async deleted(spaceId, memberIds) {
      await append(spaceId, { type: 'SpaceDeleted' })
      await Promise.all([
        signals.publish(spaceChannel(spaceId), { type: 'deleted' }),
        ...memberIds.map((id) => signals.publish(entityChannel(id), { type: 'member-left', spaceId })),
      ])
    },
    async rewritten(spaceId) {
      await tellChanged(spaceId, { type: 'SpaceSnapshot' })
    },
    async read(spaceId, humanId) {
      await signals.publish(entityChannel(humanId), { type: 'read', spaceId })
    },
  }
}
