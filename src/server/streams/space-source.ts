import type { Viewer } from '../../access/viewer.ts'
import { ForbiddenError } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import type { Delivery, FollowOptions } from '../../realtime/event-log.ts'
import { type SpaceLogEvent, spaceTopic } from '../../realtime/topics.ts'
import type { App } from '../../schema/app.ts'
import type { SpaceEvent } from '../../schema/streams.ts'
import type { Guards } from './guards.ts'
import type { Lifeline } from './live-iteration.ts'

export interface SpaceSourceParts {
  guards: Guards
  app: Pick<App, 'visibility'>
  /** Finds what was committed and never announced, while somebody watches. */
  announcer: { watch(spaceId: string): () => void }
}

/** What the subscriptions to spaces are made of, whether each has its own iteration or many share one. */
export interface SpaceSource {
  /** Lets a viewer in for as long as it may stay: see guards. @throws NotFoundError for what it may not see. */
  admit(viewer: Viewer, spaceId: string, lifeline: Lifeline): Promise<void>
  /** The cursor after which everything later comes. */
  head(spaceId: string): Promise<string>
  /** See EventLog.read and EventLog.follow. */
  read(spaceId: string, after: string): Promise<Delivery>
  follow(spaceId: string, options: FollowOptions): AsyncIterable<Delivery>
  /** The events that a delivery comes to. */
  eventsOf(spaceId: string, delivery: Delivery): SpaceEvent[]
  snapshotAt(spaceId: string, cursor: string): SpaceEvent
  /** The same, one after the other, for one viewer. @throws what ends it at the event of its own leaving: see farewellTo. */
  eventsFor(viewer: Viewer, spaceId: string, delivery: Delivery): AsyncGenerator<SpaceEvent>
  /**
   * What ends a viewer's watching at an event: one that tells the viewer itself to leave, where it has not come back since
   * (a log that is resumed tells of leaving that was undone), or where that cannot be looked up. Otherwise null.
   */
  farewellTo(viewer: Viewer, event: SpaceEvent): Promise<Error | null>
}

/** Entries of one read. */
const READ_ENTRIES = 250

export function createSpaceSource(
  { log, clock }: Pick<Platform, 'log' | 'clock'>,
  { guards, app, announcer }: SpaceSourceParts,
): SpaceSource {
  const snapshotAt = (spaceId: string, cursor: string): SpaceEvent => ({
    type: 'SpaceSnapshot',
    cursor,
    at: new Date(clock.now()),
    spaceId,
  })
  const eventsOf = (spaceId: string, delivery: Delivery): SpaceEvent[] =>
    delivery.type === 'gap'
      ? [snapshotAt(spaceId, delivery.cursor)]
      : delivery.entries.map(({ cursor, at, event }) => ({
          ...(event as SpaceLogEvent),
          cursor,
          at: new Date(at),
          spaceId,
        }))

  async function farewellTo(viewer: Viewer, event: SpaceEvent): Promise<Error | null> {
    if (event.type !== 'MemberLeft' || event.entityId !== viewer.id) return null
    try {
      const seen = await app.visibility.spaces(viewer, [event.spaceId])
      return seen.has(event.spaceId) ? null : new ForbiddenError('You are not a member of this space any more.')
    } catch (error) {
      return error as Error
    }
  }

  return {
    async admit(viewer, spaceId, lifeline) {
      await guards.viewer(viewer, lifeline)
      await guards.space(viewer, spaceId, lifeline)
      lifeline.onEnd(announcer.watch(spaceId))
    },
    async head(spaceId) {
      const [head = ''] = await log.heads([spaceTopic(spaceId)])
      return head
    },
    read: (spaceId, after) => log.read(spaceTopic(spaceId), after, READ_ENTRIES),
    follow: (spaceId, options) => log.follow(spaceTopic(spaceId), options),
    eventsOf,
    async *eventsFor(viewer, spaceId, delivery) {
      for (const event of eventsOf(spaceId, delivery)) {
        const farewell = await farewellTo(viewer, event)
        if (farewell !== null) throw farewell
        yield event
      }
    },
    snapshotAt,
    farewellTo,
  }
}
