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

/**
 * Over this many waiting events, a subscriber past its pace gets a snapshot instead. Half of the lag that
 * ends a subscription.
 */
const MOST_UNMERGED = 500

export interface SpaceMessagesParts {
  guards: Guards
  domain: Pick<Domain, 'visibility'>
  /** Publishes committed changes that were never announced, while a space has subscribers. */
  announcer: { watch(spaceId: string): () => void }
}

/** The events of one space for its subscribers: a snapshot or the missed events, then new ones. */
export function createSpaceMessages(
  { log, clock }: Pick<Platform, 'log' | 'clock'>,
  { guards, domain, announcer }: SpaceMessagesParts,
) {
  /**
   * Returns the error by which an entry ends a viewer's subscription: the space was deleted, or the viewer
   * left it and is not a member now. (A resumed log may contain a departure after which the viewer joined
   * again.) Null for any other entry.
   */
  async function farewellAt({ event }: LogEntry, viewer: Viewer, spaceId: string): Promise<Error | null> {
    if (event.type === 'SpaceDeleted') return new NotFoundError(SPACE_DELETED)
    if (!isLeavingOf(event, viewer.id)) return null
    const seen = await domain.visibility.spaces(viewer, [spaceId])
    return seen.has(spaceId) ? null : new ForbiddenError('You are no longer a member of this space.')
  }

  const snapshotAt = (spaceId: string, cursor: string): Told<SpaceEvent> => ({
    of: cursor,
    event: { type: 'SpaceSnapshot', cursor, at: new Date(clock.now()), spaceId },
  })

  async function tellDelivery(delivery: Delivery, viewer: Viewer, spaceId: string, to: Receiver<SpaceEvent>) {
    if (delivery.type === 'gap') return to.tell([snapshotAt(spaceId, delivery.cursor)])
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

  /**
   * Returns the offset of the newest entry if so many entries wait that a snapshot should replace them; else
   * null.
   */
  async function endOfStretch(cursor: string, topic: string): Promise<number | null> {
    const [head = cursor] = await log.heads([topic]).catch(() => [])
    const [from, to] = [decodeCursor(cursor), decodeCursor(head)]
    return from.epoch === to.epoch && to.n - from.n > MOST_UNMERGED ? to.n : null
  }

  /** Skips entries without delivering them. @throws the error by which one of them ends the subscription */
  async function passOver(entries: readonly LogEntry[], viewer: Viewer, spaceId: string): Promise<void> {
    for (const entry of entries) {
      const farewell = await farewellAt(entry, viewer, spaceId)
      if (farewell !== null) throw farewell
    }
  }

  /**
   * Delivers one delivery after another. If the subscriber is far past its pace, the entries up to the
   * current end of the topic are skipped and replaced by a snapshot.
   */
  async function tellAll(
    deliveries: AsyncIterable<Delivery>,
    viewer: Viewer,
    spaceId: string,
    to: Receiver<SpaceEvent>,
  ): Promise<void> {
    let skippedTo: number | null = null
    for await (const delivery of deliveries) {
      const entries = delivery.type === 'gap' ? [] : delivery.entries
      const [first, last] = [entries[0], entries.at(-1)]
      if (first === undefined) skippedTo = null
      else if (to.isPastPace()) skippedTo ??= await endOfStretch(first.cursor, spaceTopic(spaceId))
      if (skippedTo === null || last === undefined) {
        await tellDelivery(delivery, viewer, spaceId, to)
        continue
      }
      await passOver(entries, viewer, spaceId)
      if (decodeCursor(last.cursor).n < skippedTo) continue
      skippedTo = null
      await to.tell([snapshotAt(spaceId, last.cursor)])
    }
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
        await tellAll(deliveries, viewer, spaceId, to)
      }
    }, spaceId)
}

const isLeavingOf = (event: LogEntry['event'], entityId: string) =>
  event.type === 'MemberLeft' && event['entityId'] === entityId

function spaceEventOf(spaceId: string, { cursor, at, event }: LogEntry): SpaceEvent {
  return { ...(event as SpaceLogEvent), cursor, at: new Date(at), spaceId }
}

export const SPACE_DELETED = 'The space was deleted.'

/** Shared by all subscribers of a group: it must not depend on the viewer. */
function liveRulesOf(spaceId: string): LiveRules<SpaceEvent> {
  return {
    eventOf: (entry) => (entry.event.type === 'SpaceDeleted' ? null : spaceEventOf(spaceId, entry)),
    isSpecial: ({ event }) => event.type === 'MemberLeft' || event.type === 'SpaceDeleted',
    concerns: ({ event }, viewerId) => event.type === 'SpaceDeleted' || isLeavingOf(event, viewerId),
  }
}
