import type { Viewer } from '../../access/viewer.ts'
import { ForbiddenError, NotFoundError } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import { decodeCursor } from '../../realtime/cursor.ts'
import type { Delivery, LogEntry } from '../../realtime/event-log.ts'
import { type SpaceLogEvent, spaceTopic } from '../../realtime/topics.ts'
import type { Domain } from '../../schema/domain.ts'
import type { SpaceEvent, Watcher } from '../../schema/streams.ts'
import { type Feed, type LiveRules, openFeed, type Receiver, type Told } from './feed.ts'
import type { Guards } from './guards.ts'

export interface SpaceMessagesParts {
  guards: Guards
  domain: Pick<Domain, 'visibility'>
  /** Finds what was committed and never announced, while somebody watches. */
  announcer: { watch(spaceId: string): () => void }
}

/** The events of one space, as its subscribers get them: a snapshot or what they missed, then what comes. */
export function createSpaceMessages(
  { log, clock }: Pick<Platform, 'log' | 'clock'>,
  { guards, domain, announcer }: SpaceMessagesParts,
) {
  /**
   * What ends a viewer's watching at an entry: the space's own end, or one that tells the viewer itself to leave, where it has not come back since
   * (a log that is resumed tells of leaving that was undone). Otherwise null.
   */
  async function farewellAt({ event }: LogEntry, viewer: Viewer, spaceId: string): Promise<Error | null> {
    if (event.type === 'SpaceDeleted') return new NotFoundError(SPACE_DELETED)
    if (!isLeavingOf(event, viewer.id)) return null
    const seen = await domain.visibility.spaces(viewer, [spaceId])
    return seen.has(spaceId) ? null : new ForbiddenError('You are not a member of this space any more.')
  }

  async function tellDelivery(delivery: Delivery, viewer: Viewer, spaceId: string, to: Receiver<SpaceEvent>) {
    if (delivery.type === 'gap') {
      const { cursor } = delivery
      return to.tell([{ of: cursor, event: { type: 'SpaceSnapshot', cursor, at: new Date(clock.now()), spaceId } }])
    }
    const told: Told<SpaceEvent>[] = []
    for (const entry of delivery.entries) {
      const farewell = await farewellAt(entry, viewer, spaceId)
      if (farewell !== null) {
        await to.tell(told)
        throw farewell
      }
      told.push({ of: entry, event: spaceEventOf(spaceId, entry) })
    }
    return to.tell(told)
  }

  return (
    { viewer, onSlow }: Watcher,
    { spaceId, after }: { spaceId: string; after: string | null },
  ): Promise<Feed<SpaceEvent>> =>
    openFeed(async (lifeline) => {
      if (after !== null) decodeCursor(after)
      await guards.viewer(viewer, lifeline)
      await guards.space(viewer, spaceId, lifeline)
      lifeline.onEnd(announcer.watch(spaceId))
      return async (to) => {
        const { signal } = lifeline
        const rules = liveRulesOf(spaceId)
        const deliveries = log.follow(spaceTopic(spaceId), {
          after: after ?? undefined,
          signal,
          onSlow,
          onSeat: (window, seat, until) => to.sit(window, seat, until, rules),
        })
        for await (const delivery of deliveries) await tellDelivery(delivery, viewer, spaceId, to)
      }
    }, spaceId)
}

const isLeavingOf = (event: LogEntry['event'], entityId: string) =>
  event.type === 'MemberLeft' && event['entityId'] === entityId

function spaceEventOf(spaceId: string, { cursor, at, event }: LogEntry): SpaceEvent {
  return { ...(event as SpaceLogEvent), cursor, at: new Date(at), spaceId }
}

export const SPACE_DELETED = 'The space was deleted.'

/** Nothing of one subscriber is in it: it is the group's. */
function liveRulesOf(spaceId: string): LiveRules<SpaceEvent> {
  return {
    eventOf: (entry) => (entry.event.type === 'SpaceDeleted' ? null : spaceEventOf(spaceId, entry)),
    isSpecial: ({ event }) => event.type === 'MemberLeft' || event.type === 'SpaceDeleted',
    concerns: ({ event }, viewerId) => event.type === 'SpaceDeleted' || isLeavingOf(event, viewerId),
  }
}
