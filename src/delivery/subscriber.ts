// Serves one subscriber: creates the answers to the events of its feed and sends them to its sink. Does so
// separately for each subscriber that lags, and through the hub once a subscriber is caught up.
import type { Viewer } from '../access/viewer.ts'
import type { Turns } from '../lib/turns.ts'
import { type Answer, type EventAnswer, identityOf, isPersonal, type Sink } from './answer.ts'
import { type Answers, isDeliverable, nextVersion } from './answers.ts'
import { largeCharactersOf, mergeDeliveries, type Pace } from './backpressure.ts'
import type { Delivery, Feed, Subscriber } from './feed.ts'
import type { Hub } from './hub.ts'

export interface SubscriberParts {
  hub: Hub
  /**
   * Makes lagging subscribers take turns. A subscriber waits for its turn before it delivers, and again after it
   * has waited for a lookup, because many subscribers may have waited for the same lookup.
   */
  turns: Turns
  answers: Answers
  viewer: Viewer
  sink: Sink
  pace: Pace
  /** Ends the subscription because it lags too far behind. */
  onTooSlow(): void
}

/** After this many characters, the subscriber checks whether the sink can take more. */
const MOST_GIVEN_CHARACTERS = 256 * 1024

/** Creates the answers to the events of a feed, and sends them to the subscriber's sink at the subscriber's pace. */
export function createSubscriber(
  { lifeline: { signal } }: Pick<Feed<object>, 'lifeline'>,
  { answers, viewer, sink, pace, hub, turns, onTooSlow }: SubscriberParts,
): Subscriber<object> {
  /**
   * The version of the newest data that this subscriber has received. It starts with the current version, because the
   * client may have received data up to now through other operations.
   */
  let readVersion = nextVersion()
  let wasCaughtUp = false
  /** Whether the subscriber has exceeded its pace since it was last caught up. */
  let isBehind = false
  const viewers = () => [viewer]
  const isThere = () => !signal.aborted

  async function ownAnswer(delivery: Delivery<object>): Promise<Answer> {
    const found = answers.answer(delivery, viewers, readVersion)
    const answer = found instanceof Promise ? await inTurn(found, turns) : found
    const own = isPersonal(answer) ? answer.get(identityOf(viewer)) : answer
    // The execution failed only for this viewer, so it is retried for this viewer alone.
    if (own === undefined) return ownAnswer({ ...delivery, shareKey: null })
    if (own instanceof Error) throw own
    readVersion = Math.max(readVersion, own.versions.to)
    return own
  }

  async function ownTurn(): Promise<void> {
    isBehind = true
    if (!(await pace.turn(signal))) onTooSlow()
  }

  /**
   * Returns the answer once the pace allows it. If it has to wait, the answer is discarded, and the operation is
   * executed again later.
   */
  async function pacedAnswer(delivery: Delivery<object>): Promise<Answer> {
    const own = await ownAnswer(delivery)
    const large = largeCharactersOf(own)
    if (pace.take(large)) return own
    await ownTurn()
    if (!isThere()) return own
    const again = await ownAnswer(delivery)
    pace.spend(largeCharactersOf(again))
    return again
  }

  async function deliver(deliveries: readonly Delivery<object>[]): Promise<void> {
    await turns.next()
    let given: Answer[] = []
    let characters = 0
    const send = () => {
      if (isThere() && given.length > 0) sink.send(given)
      given = []
      characters = 0
    }
    let waiting = isBehind ? mergeDeliveries(deliveries) : deliveries
    try {
      for (let next = 0; next < waiting.length; next++) {
        if (pace.isHeld) {
          send()
          await ownTurn()
          waiting = mergeDeliveries(waiting.slice(next))
          next = 0
        }
        if (!isThere()) return
        const own = await pacedAnswer(waiting[next]!)
        if (!isDeliverable(own)) continue
        given.push(own)
        characters += own.text.length
        if (characters < MOST_GIVEN_CHARACTERS) continue
        send()
        await ready(sink, signal)
      }
    } finally {
      send()
    }
    await ready(sink, signal)
  }

  return {
    deliver,
    isPastPace: () => isBehind && wasCaughtUp,
    async attach(window, position, until, rules) {
      wasCaughtUp = true
      if (!pace.isHeld) isBehind = false
      readVersion = await hub.attach({ answers, viewer, sink, pace, window, position, rules, readVersion }, until)
      while (pace.isHeld && !until.aborted) {
        isBehind = true
        const hasTurn = await pace.turn(until)
        if (!hasTurn && (window.publicationsAfter(position)?.length ?? 1) > 0) return onTooSlow()
      }
    },
  }
}

/** Waits for an answer, and then for a turn to deliver it. */
async function inTurn(answer: Promise<EventAnswer>, turns: Turns): Promise<EventAnswer> {
  const settled = await answer
  await turns.next()
  return settled
}

/** Resolves once the sink can take more, or the signal aborts. */
function ready(sink: Sink, signal: AbortSignal): Promise<void> | void {
  if (!sink.isBusy() || signal.aborted) return
  return new Promise((resolve) => {
    const done = () => {
      stop()
      signal.removeEventListener('abort', done)
      resolve()
    }
    const stop = sink.whenReady(done)
    signal.addEventListener('abort', done)
  })
}
