import type { Viewer } from '../access/viewer.ts'
import { RateLimitedError } from '../lib/errors.ts'
import { isAdmin } from '../rules/permissions.ts'

/** Limits the number of subscriptions of each viewer in this process, over all transports. */
export interface SubscriptionLimits {
  /**
   * Counts a subscription. Returns a function that releases it.
   * @throws RateLimitedError if the viewer has reached a limit
   */
  take(viewer: Viewer, subscription: StandingSubscription): () => void
}

export interface StandingSubscription {
  /** The source of the events: a space, or null for the viewer's own events. */
  topic: string | null
  /** The `Answers` object. Subscriptions with the same execution have the same object. */
  answers: object
  /** The number of fields that one event may return. */
  weight: number
  isOfViewer: boolean
}

/**
 * The maximum number of fields that one event on a topic may return for one viewer, summed over the viewer's
 * different operations.
 */
const MOST_FIELDS_AN_EVENT = 50_000
/** The minimum weight of an operation. */
const LEAST_WEIGHT = 500
/**
 * The maximum number of `viewerEvents` subscriptions of a viewer. Each of them listens to all of the viewer's
 * spaces.
 */
const MOST_OF_VIEWER = 200
/** The maximum number of subscriptions of a viewer, regardless of how many sockets the viewer may open. */
const MOST_SUBSCRIPTIONS = 5000
/** The maximum number of subscriptions per socket. */
export const MOST_OF_SOCKET = 100
const TRY_AGAIN_MS = 10_000

/**
 * Returns the maximum number of subscriptions of a viewer. A viewer may have as many as its sockets may carry, up
 * to `MOST_SUBSCRIPTIONS`, and at least one per socket.
 */
export function mostSubscriptions(maxSocketsPerViewer: number): number {
  return Math.min(MOST_OF_SOCKET * maxSocketsPerViewer, Math.max(MOST_SUBSCRIPTIONS, maxSocketsPerViewer))
}

interface Held {
  count: number
  /** The number of subscriptions to `viewerEvents`. */
  ofViewer: number
  /** The different operations by topic, each with its weight and its number of subscriptions. */
  ways: Map<string | null, Map<object, { users: number; weight: number }>>
}

export function createSubscriptionLimits(mostOfViewer: number): SubscriptionLimits {
  const held = new Map<string, Held>()

  return {
    take(viewer, { topic, answers, weight, isOfViewer }) {
      const own: Held = held.get(viewer.id) ?? { count: 0, ofViewer: 0, ways: new Map() }
      const ways = own.ways.get(topic) ?? new Map<object, { users: number; weight: number }>()
      const way = ways.get(answers) ?? { users: 0, weight: Math.max(weight, LEAST_WEIGHT) }
      const others = [...ways.values()].reduce((sum, { weight }) => sum + weight, 0)
      if (!isAdmin(viewer)) {
        if (own.count >= mostOfViewer)
          throw tooManySubscriptions(`You may have at most ${mostOfViewer} subscriptions at a time.`)
        if (isOfViewer && own.ofViewer >= MOST_OF_VIEWER)
          throw tooManySubscriptions(`You may have at most ${MOST_OF_VIEWER} subscriptions to viewerEvents at a time.`)
        if (way.users === 0 && ways.size > 0 && others + way.weight > MOST_FIELDS_AN_EVENT)
          throw tooManySubscriptions(
            'Your subscriptions to this topic use too many different selections. Select less, or use one selection for all.',
          )
      }
      held.set(viewer.id, own)
      own.ways.set(topic, ways)
      ways.set(answers, way)
      own.count += 1
      own.ofViewer += isOfViewer ? 1 : 0
      way.users += 1
      return () => {
        own.count -= 1
        own.ofViewer -= isOfViewer ? 1 : 0
        way.users -= 1
        if (way.users === 0) ways.delete(answers)
        if (ways.size === 0) own.ways.delete(topic)
        if (own.count === 0) held.delete(viewer.id)
      }
    },
  }
}

/** `message`: a sentence about the limit that was reached. */
export function tooManySubscriptions(message: string): RateLimitedError {
  return new RateLimitedError(`${message} End some subscriptions, then try again.`, TRY_AGAIN_MS)
}
