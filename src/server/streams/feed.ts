import type { LiveSeat, LiveWindow, LogEntry } from '../../realtime/event-log.ts'
import { createLifeline, type Lifeline, type OwnLifeline } from './lifeline.ts'

/** An event on its way to a subscriber. */
export interface Told<E> {
  event: E
  /** What makes it the same event for others: its entry in the log, what is known of an agent's runs, or the cursor of a snapshot. Null for the subscriber's own. */
  of: object | string | null
}

/** How the entries of a topic are told to those who have had everything before them. */
export interface LiveRules<E> {
  /** Null for what is not told. The same for all who ask the same: see answer-key.ts. */
  eventOf(entry: LogEntry): E | null | Promise<E | null>
  /** Whether an entry may mean more to somebody than its event; then `concerns` says to whom. */
  isSpecial(entry: LogEntry): boolean
  /** Whether an entry has to be told to a viewer by the feed itself. */
  concerns(entry: LogEntry, viewerId: string): boolean
}

/** Where the events of a subscription go. */
export interface Receiver<E> {
  /** In order; resolves when more may be told. @throws what ends the subscription. */
  tell(told: readonly Told<E>[]): Promise<void>
  /** Whether the subscriber once had everything and is past its own pace now: a snapshot may stand for what waits. */
  isPastPace(): boolean
  /** From here on with everybody who sits in the window: see FollowOptions.onSeat. */
  sit(window: LiveWindow, seat: LiveSeat, signal: AbortSignal, rules: LiveRules<E>): Promise<void>
}

/**
 * The events of one subscription, for which its guards stand. An iterable by name alone, since GraphQL asks a source for
 * that: `deliver` is how they are had (see subscribe.ts).
 */
export interface Feed<E> extends AsyncIterable<E> {
  lifeline: OwnLifeline
  /** The space that every one of its viewers is a member of, as long as it is delivered; null where there is none. */
  shownIn: string | null
  /** Resolves when there are no more events, or the lifeline has ended. @throws what ends the subscription. */
  deliver(to: Receiver<E>): Promise<void>
}

/** Makes a feed once its guards stand; where that fails, nothing of it stays. */
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
