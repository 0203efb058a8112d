import type { LiveSeat, LiveWindow, LogEntry } from '../../realtime/event-log.ts'
import { createLifeline, type Lifeline, type OwnLifeline } from './lifeline.ts'

/** An event on its way to a subscriber. */
export interface Told<E> {
  event: E
  /**
   * Identifies the same event for other subscribers, so that its answer is shared: the log entry, the list of
   * an agent's runs, or the cursor of a snapshot. Null if the event belongs to this subscriber alone.
   */
  of: object | string | null
}

/** How the entries of a topic are delivered to caught-up subscribers. */
export interface LiveRules<E> {
  /**
   * The event of an entry; null if it is not delivered. It must be the same for all subscribers of one answer
   * key (answer-key.ts).
   */
  eventOf(entry: LogEntry): E | null | Promise<E | null>
  /** Whether an entry may need handling beyond its event for some viewer, which `concerns` then decides. */
  isSpecial(entry: LogEntry): boolean
  /** Whether the feed itself must deliver the entry to this viewer. */
  concerns(entry: LogEntry, viewerId: string): boolean
}

/** Receives the events of a subscription. */
export interface Receiver<E> {
  /** Delivers events in order. Resolves when it can take more. @throws the error that ends the subscription */
  tell(told: readonly Told<E>[]): Promise<void>
  /**
   * Whether the subscriber was caught up once and is past its pace now, so that a snapshot may replace the
   * waiting events.
   */
  isPastPace(): boolean
  /** Continues from here together with the other caught-up subscribers of the window: see FollowOptions.onSeat. */
  sit(window: LiveWindow, seat: LiveSeat, signal: AbortSignal, rules: LiveRules<E>): Promise<void>
}

/**
 * The events of one subscription, already authorised. It is typed as AsyncIterable only because graphql-js
 * requires that of a source; call `deliver` instead (see subscribe.ts).
 */
export interface Feed<E> extends AsyncIterable<E> {
  lifeline: OwnLifeline
  /** The space whose members all its viewers are while it is delivered; null if there is none. */
  shownIn: string | null
  /**
   * Resolves when there are no more events, or the lifeline has ended. @throws the error that ends the
   * subscription
   */
  deliver(to: Receiver<E>): Promise<void>
}

/** Opens a feed once its guards are active. If that fails, everything is released. */
export async function openFeed<E>(
  prepare: (lifeline: Lifeline) => Promise<(to: Receiver<E>) => Promise<void>>,
  shownIn: string | null = null,
): Promise<Feed<E>> {
  const lifeline = createLifeline()
  try {
    const deliver = await prepare(lifeline)
    return { lifeline, shownIn, deliver, [Symbol.asyncIterator]: unused }
  } catch (error) {
    lifeline.end()
    throw error
  }
}

function unused(): never {
  throw new Error('a feed cannot be iterated; use its deliver method')
}
