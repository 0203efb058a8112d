import { ADMIN_CHANNEL, entityChannel, spaceChannel } from '../broker/topics.ts'
import type { Platform } from '../platform/platform.ts'
import type { PublishedGrant } from '../stores/grant-store.ts'

/**
 * Publishes changes of standing grants after the commit. The recipients are the members of the grant's space, the
 * grant's approvers, and admins.
 */
export interface GrantPublisher {
  changed(grant: PublishedGrant): Promise<void>
}

export function createGrantPublisher({ signals }: Pick<Platform, 'signals'>): GrantPublisher {
  return {
    async changed({ id, spaceId, approverIds }) {
      const signal = { type: 'grant-changed' as const, grantId: id }
      const channels = [...(spaceId === null ? [] : [spaceChannel(spaceId)]), ...approverIds.map(entityChannel)]
      await Promise.all([...channels, ADMIN_CHANNEL].map((channel) => signals.publish(channel, signal)))
    },
  }
}
