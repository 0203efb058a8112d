import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import { entityChannel, type SpaceLogEvent, spaceChannel, spaceTopic } from '../realtime/topics.ts'

/**
 * Tells the world what was committed about a space and its members: the space's own topic, whoever watches the space, and
 * the members' own channels. Never throws: the database has the truth, and who missed something looks it up.
 */
export interface SpaceNews {
  created(spaceId: string, memberIds: readonly string[]): Promise<void>
  /** Its name, description, routing or admin agent changed. */
  changed(spaceId: string): Promise<void>
  joined(spaceId: string, entityId: string): Promise<void>
  left(spaceId: string, entityId: string): Promise<void>
  /** A human's read marker moved. */
  read(spaceId: string, humanId: string): Promise<void>
}

export function createSpaceNews({ log, signals, logger }: Pick<Platform, 'log' | 'signals' | 'logger'>): SpaceNews {
  async function append(spaceId: string, event: SpaceLogEvent): Promise<void> {
    try {
      await log.append(spaceTopic(spaceId), event)
    } catch (error) {
      logger.warn({ spaceId, event: event.type, error: messageOf(error) }, 'a space event could not be published')
    }
  }

  return {
    async created(spaceId, memberIds) {
      await Promise.all(memberIds.map((id) => signals.publish(entityChannel(id), { type: 'member-joined', spaceId })))
    },
    async changed(spaceId) {
      await Promise.all([
        append(spaceId, { type: 'SpaceUpdated' }),
        signals.publish(spaceChannel(spaceId), { type: 'changed' }),
      ])
    },
    async joined(spaceId, entityId) {
      await Promise.all([
        append(spaceId, { type: 'MemberJoined', entityId }),
        signals.publish(spaceChannel(spaceId), { type: 'member-joined', entityId }),
        signals.publish(entityChannel(entityId), { type: 'member-joined', spaceId }),
      ])
    },
    async left(spaceId, entityId) {
      await Promise.all([
        append(spaceId, { type: 'MemberLeft', entityId }),
        signals.publish(spaceChannel(spaceId), { type: 'member-left', entityId }),
        signals.publish(entityChannel(entityId), { type: 'member-left', spaceId }),
      ])
    },
    async read(spaceId, humanId) {
      await signals.publish(entityChannel(humanId), { type: 'read', spaceId })
    },
  }
}
