// The feed of `spaceMessages`: a snapshot or the publications after a cursor, then new publications, until the
// viewer leaves.
import type { Viewer } from '../../access/viewer.ts'
import { decodeCursor } from '../../broker/cursor.ts'
import type { LogBatch, Publication } from '../../broker/log.ts'
import { type SpaceLogEvent, spaceTopic } from '../../broker/topics.ts'
import type { Domain } from '../../graphql/domain.ts'
import type { SpaceEvent, Watcher } from '../../graphql/streams.ts'
import { ForbiddenError, NotFoundError } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import type { Announcer } from '../../spaces/announcer.ts'
import {
  type Besides,
  type Delivery,
  type Feed,
  type HubRules,
  type Lifeline,
  openFeed,
  type Subscriber,
} from '../feed.ts'
import type { Guards } from '../guards.ts'

/**
 * If more events than this are waiting, a subscriber that exceeds its pace gets a snapshot instead. This number is
 * half of the lag at which a subscription ends.
 */
const MOST_UNMERGED = 500

export interface SpaceMessagesParts {
  guards: Guards
  /** While a space has subscribers, publishes committed changes that were never announced. */
  announcer: Pick<Announcer, 'watch'>
  presence: Pick<Domain['presence'], 'watch'>
}

/** A viewer's subscription to a space. It lasts until the signal aborts. */
interface Watched {
  viewer: Viewer
  spaceId: string
  signal: AbortSignal
}

/** Delivers the events of one space to its subscribers: a snapshot or the missed events, then new events. */
export function createSpaceMessages(
  { log, clock }: Pick<Platform, 'log' | 'clock'>,
  { guards, announcer, presence }: SpaceMessagesParts,
) {
  /**
   * If a publication ends a viewer's subscription, returns the error for the viewer. The reason is that the space
   * was deleted, or that the viewer left it and is not a member now. The current membership is checked because a
   * viewer may have joined again after the departure. Returns null for any other publication.
   */
  async function endErrorAt({ event }: Publication, { viewer, spaceId, signal }: Watched): Promise<Error | null> {
    if (event.type === 'SpaceDeleted') return new NotFoundError(SPACE_DELETED)
    if (!isLeavingOf(event, viewer.id)) return null
    const isMember = await guards.seesSpace(viewer, spaceId, signal)
    return isMember ? null : new ForbiddenError('You are no longer a member of this space.')
  }

  const snapshotAt = (spaceId: string, cursor: string): Delivery<SpaceEvent> => ({
    shareKey: cursor,
    event: { type: 'SpaceSnapshot', cursor, at: new Date(clock.now()), spaceId },
  })

  async function deliverBatch(batch: LogBatch, watched: Watched, to: Subscriber<SpaceEvent>) {
    const { spaceId } = watched
    if (batch.type === 'gap') return to.deliver([snapshotAt(spaceId, batch.cursor)])
    const deliveries: Delivery<SpaceEvent>[] = []
    for (const publication of batch.publications) {
      const farewell = await endErrorAt(publication, watched)
      if (farewell !== null) {
        await to.deliver(deliveries)
        throw farewell
      }
      deliveries.push({ shareKey: publication, event: spaceEventOf(spaceId, publication) })
    }
    return to.deliver(deliveries)
  }

  /**
   * Returns the offset of the newest publication if many publications are waiting and a snapshot should replace
   * them; null otherwise.
   */
  async function endToSkipTo(cursor: string, topic: string): Promise<number | null> {
    const [head = cursor] = await log.heads([topic]).catch(() => [])
    const [from, to] = [decodeCursor(cursor), decodeCursor(head)]
    return from.epoch === to.epoch && to.offset - from.offset > MOST_UNMERGED ? to.offset : null
  }

  /**
   * Skips publications without delivering them.
   * @throws an error if one of them ends the subscription
   */
  async function skipPublications(publications: readonly Publication[], watched: Watched): Promise<void> {
    for (const publication of publications) {
      const farewell = await endErrorAt(publication, watched)
      if (farewell !== null) throw farewell
    }
  }

  /**
   * Delivers one batch after another. If the subscriber exceeds its pace and many publications are waiting, a
   * snapshot replaces the publications up to the current end of the topic.
   */
  async function deliverAll(
    batches: AsyncIterable<LogBatch>,
    watched: Watched,
    to: Subscriber<SpaceEvent>,
  ): Promise<void> {
    const { spaceId } = watched
    let skippedTo: number | null = null
    for await (const batch of batches) {
      const publications = batch.type === 'gap' ? [] : batch.publications
      const [first, last] = [publications[0], publications.at(-1)]
      if (first === undefined) skippedTo = null
      else if (to.isPastPace()) skippedTo ??= await endToSkipTo(first.cursor, spaceTopic(spaceId))
      if (skippedTo === null || last === undefined) {
        await deliverBatch(batch, watched, to)
        continue
      }
      await skipPublications(publications, watched)
      if (decodeCursor(last.cursor).offset < skippedTo) continue
      skippedTo = null
      await to.deliver([snapshotAt(spaceId, last.cursor)])
    }
  }

  function watchPresence(spaceId: string, lifeline: Lifeline): Besides<SpaceEvent> {
    const { presence: source, leave } = presence.watch(spaceId)
    lifeline.onEnd(leave)
    return {
      source,
      received: { version: source.version },
      eventSince: (version, cursor) => ({
        type: 'MemberPresenceChanged',
        cursor,
        at: new Date(clock.now()),
        spaceId,
        changes: source.changesSince(version),
      }),
    }
  }

  return (
    { viewer, onSlow }: Watcher,
    { spaceId, after, selectsPresence }: { spaceId: string; after: string | null; selectsPresence: boolean },
  ): Promise<Feed<SpaceEvent>> =>
    openFeed(async (lifeline) => {
      if (after !== null) decodeCursor(after)
      await guards.viewer(viewer, lifeline)
      await guards.space(viewer, spaceId, lifeline)
      lifeline.onEnd(announcer.watch(spaceId))
      // Watching begins before the snapshot is read, so that no change after the snapshot is missed.
      const besides = selectsPresence ? watchPresence(spaceId, lifeline) : null
      return async (to) => {
        const { signal } = lifeline
        const rules = { ...hubRulesOf(spaceId), besides }
        const batches = log.follow(spaceTopic(spaceId), {
          after: after ?? undefined,
          signal,
          onSlow,
          onCaughtUp: (window, position, until) => to.attach(window, position, until, rules),
        })
        await deliverAll(batches, { viewer, spaceId, signal }, to)
      }
    }, spaceId)
}

const isLeavingOf = (event: Publication['event'], entityId: string) =>
  event.type === 'MemberLeft' && event['entityId'] === entityId

function spaceEventOf(spaceId: string, { cursor, at, event }: Publication): SpaceEvent {
  return { ...(event as SpaceLogEvent), cursor, at: new Date(at), spaceId }
}

export const SPACE_DELETED = 'The space was deleted.'

/** Returns the rules that all subscribers of a group share. They must not depend on the viewer. */
function hubRulesOf(spaceId: string): HubRules<SpaceEvent> {
  return {
    eventOf: (publication) => (publication.event.type === 'SpaceDeleted' ? null : spaceEventOf(spaceId, publication)),
    mayNeedFeed: ({ event }) => event.type === 'MemberLeft' || event.type === 'SpaceDeleted',
    needsFeed: ({ event }, viewerId) => event.type === 'SpaceDeleted' || isLeavingOf(event, viewerId),
  }
}
