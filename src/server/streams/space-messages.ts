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

/** Waiting events of a subscriber past its pace: more of them are replaced by a snapshot. Half of what ends the subscription. */
const MOST_UNMERGED = 500

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

  /** The newest entry's number, where so many entries wait behind one that a snapshot is to stand for them; else null. */
  async function endOfStretch(cursor: string, topic: string): Promise<number | null> {
    const [head = cursor] = await log.heads([topic]).catch(() => [])
    const [from, to] = [decodeCursor(cursor), decodeCursor(head)]
    return from.epoch === to.epoch && to.n - from.n > MOST_UNMERGED ? to.n : null
  }

  /** Throws what ends the viewer's watching at one of these entries; nothing else of them is told. */
  async function passOver(entries: readonly LogEntry[], viewer: Viewer, spaceId: string): Promise<void> {
    for (const entry of entries) {
      const farewell = await farewellAt(entry, viewer, spaceId)
      if (farewell !== null) throw farewell
    }
  }

  /**
   * Tells deliveries one after the other. Where a subscriber is far past its pace, what waits is passed over up to the end that the topic had
   * then, and a snapshot stands for all of it.
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

/** Nothing of one subscriber is in it: it is the group's. */
function liveRulesOf(spaceId: string): LiveRules<SpaceEvent> {
  return {
    eventOf: (entry) => (entry.event.type === 'SpaceDeleted' ? null : spaceEventOf(spaceId, entry)),
    isSpecial: ({ event }) => event.type === 'MemberLeft' || event.type === 'SpaceDeleted',
    concerns: ({ event }, viewerId) => event.type === 'SpaceDeleted' || isLeavingOf(event, viewerId),
  }
}
