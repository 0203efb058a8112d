import type { Viewer } from '../../access/viewer.ts'
import { RateLimitedError } from '../../lib/errors.ts'

/** The subscriptions that stand in this process, by whatever transport they came: what one viewer may have standing. */
export interface SubscriptionLimits {
  /**
   * A place for one more; comes back with the way to leave it.
   * @throws RateLimitedError where its viewer has as many as it may
   */
  take(viewer: Viewer, subscription: StandingSubscription): () => void
}

export interface StandingSubscription {
  /** What tells of events: a space, or null for the viewer's own. */
  topic: string | null
  /** What is the same for all that are answered by the same execution. */
  answers: object
  /** The fields that an event may come to. */
  weight: number
  isOfViewer: boolean
}

/** One event may come to so many fields for one viewer, in all different ways in which it asked to be told. */
const MOST_FIELDS_AN_EVENT = 50_000
/** What a further way costs at least. */
const LEAST_WEIGHT = 500
/** Of what is told to the viewer as such, which follows all its spaces. */
const MOST_OF_VIEWER = 200
/** Subscriptions that one viewer may have, however many sockets it may have. */
const MOST_SUBSCRIPTIONS = 5000
/** That one socket carries. */
export const MOST_OF_SOCKET = 100
const TRY_AGAIN_MS = 10_000

/** As many as its sockets carry, up to a number that is one for each where it may have very many. */
export function mostSubscriptions(maxSocketsPerViewer: number): number {
  return Math.min(MOST_OF_SOCKET * maxSocketsPerViewer, Math.max(MOST_SUBSCRIPTIONS, maxSocketsPerViewer))
}

interface Held {
  count: number
  /** Of its own: viewerEvents. */
  ofViewer: number
  /** By topic: each way in which it is answered, with how often it stands. */
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
      if (viewer.scope !== 'ADMIN') {
        if (own.count >= mostOfViewer)
          throw tooManySubscriptions(`At most ${mostOfViewer} subscriptions stand at a time.`)
        if (isOfViewer && own.ofViewer >= MOST_OF_VIEWER)
          throw tooManySubscriptions(`At most ${MOST_OF_VIEWER} subscriptions to viewerEvents stand at a time.`)
        if (way.users === 0 && ways.size > 0 && others + way.weight > MOST_FIELDS_AN_EVENT)
          throw tooManySubscriptions(
            'Your subscriptions here ask for too much, in too many ways: ask for less, or in one way.',
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

/** `message` says of what there are too many. */
export function tooManySubscriptions(message: string): RateLimitedError {
  return new RateLimitedError(`${message} End some, then try again.`, TRY_AGAIN_MS)
}
