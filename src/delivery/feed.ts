// The interface between a feed, which is the source of a subscription's events, and the subscriber that receives
// them. This file also defines the lifetime of a subscription.
import type { Publication, SharedWindow, SubscriberPosition } from '../broker/log.ts'

/** An event on its way to a subscriber. */
export interface Delivery<E> {
  event: E
  /**
   * Identifies the event, so that subscribers can share its answer. The key is the publication, the list of an
   * agent's runs, or the cursor of a snapshot. Null if only this subscriber receives the event.
   */
  shareKey: object | string | null
}

/**
 * Events that a subscriber gets in addition to the publications of a topic. They are not stored. A caught-up
 * subscriber gets such an event with the current state of everything that has changed since its previous one. The
 * event has the cursor of the last publication. A lagging subscriber gets one as soon as it is caught up.
 */
export interface Besides<E> {
  source: {
    /** The number of changes so far. */
    readonly version: number
    /** Calls the listener after changes. Returns a function that removes the listener. */
    listen(listener: () => void): () => void
    /** Calls the listeners again later. Must be called when a subscriber could not take the changes. */
    notifyAgain(): void
  }
  /** Returns an event with all changes after a version. */
  eventSince(version: number, cursor: string): E
  /** The number of changes that this subscriber has received. */
  received: { version: number }
}

/** Decides how the publications of a topic are delivered to caught-up subscribers. */
export interface HubRules<E> {
  /**
   * Returns the event of a publication; null if the publication is not delivered. All subscribers with the same
   * answer key must get the same event (see answer-key.ts).
   */
  eventOf(publication: Publication): E | null | Promise<E | null>
  /**
   * Whether the feed itself has to deliver the publication to some viewers. If so, `needsFeed` decides for each
   * viewer.
   */
  mayNeedFeed(publication: Publication): boolean
  /** Whether the feed itself must deliver the publication to this viewer. */
  needsFeed(publication: Publication, viewerId: string): boolean
  /**
   * The additional events; null if the operation does not select any. Unlike the other members, this one belongs to
   * a single subscriber.
   */
  besides?: Besides<E> | null
}

/** Receives the events of a subscription. */
export interface Subscriber<E> {
  /**
   * Delivers events in order. Resolves when the subscriber can take more.
   * @throws the error that ends the subscription
   */
  deliver(deliveries: readonly Delivery<E>[]): Promise<void>
  /**
   * Whether the subscriber was caught up before and now exceeds its pace, so that a snapshot can replace the
   * waiting events.
   */
  isPastPace(): boolean
  /** Delivers together with the other caught-up subscribers of the window. See FollowOptions.onCaughtUp. */
  attach(window: SharedWindow, position: SubscriberPosition, signal: AbortSignal, rules: HubRules<E>): Promise<void>
}

/**
 * The events of one subscription, which is already authorized. The type extends AsyncIterable only because
 * graphql-js requires an AsyncIterable as a source. The events are read with `deliverTo`, not by iterating (see
 * subscribe.ts).
 */
export interface Feed<E> extends AsyncIterable<E> {
  lifeline: OwnLifeline
  /** The space that every viewer of this feed belongs to while the feed is delivered; null if there is none. */
  shownIn: string | null
  /**
   * Resolves when there are no more events or the lifeline has ended.
   * @throws the error that ends the subscription
   */
  deliverTo(to: Subscriber<E>): Promise<void>
}

/** Opens a feed once its guards are active. If this fails, ends the lifeline, which releases all resources. */
export async function openFeed<E>(
  prepare: (lifeline: Lifeline) => Promise<(to: Subscriber<E>) => Promise<void>>,
  shownIn: string | null = null,
): Promise<Feed<E>> {
  const lifeline = createLifeline()
  try {
    const deliver = await prepare(lifeline)
    return { lifeline, shownIn, deliverTo: deliver, [Symbol.asyncIterator]: unused }
  } catch (error) {
    lifeline.end()
    throw error
  }
}

function unused(): never {
  throw new Error('a feed cannot be iterated; use its deliverTo method')
}

/**
 * The lifetime of a subscription, as the source of its events sees it. The source is notified of the end, and can
 * end the subscription.
 */
export interface Lifeline {
  /** Aborts when the subscription has ended for any reason. */
  signal: AbortSignal
  /** Ends the subscription with this error at once, even while the source waits. */
  fail(error: Error): void
  /** Calls `cleanUp` when the subscription ends, or at once if it has already ended. */
  onEnd(cleanUp: () => void): void
}

/** The lifetime of a subscription, as the code that opened the subscription sees it. */
export interface OwnLifeline extends Lifeline {
  end(): void
  /** The error that ended the subscription; null if there was none. */
  failure(): Error | null
}

export function createLifeline(): OwnLifeline {
  const controller = new AbortController()
  const { signal } = controller
  const cleanUps: (() => void)[] = []
  let failure: Error | null = null

  function end(): void {
    if (signal.aborted) return
    controller.abort()
    for (const cleanUp of cleanUps.splice(0)) cleanUp()
  }

  return {
    signal,
    end,
    fail(error) {
      if (signal.aborted) return
      failure = error
      end()
    },
    failure: () => failure,
    onEnd(cleanUp) {
      if (signal.aborted) cleanUp()
      else cleanUps.push(cleanUp)
    },
  }
}
