import type { Viewer } from '../../access/viewer.ts'
import type { Turns } from '../../lib/turns.ts'
import { type Answer, identityOf, isPersonal, type Outcome } from './answer.ts'
import { type Answers, isTold, moment } from './answers.ts'
import type { Feed, Receiver, Told } from './feed.ts'
import type { LiveGroups } from './live-groups.ts'
import { mergeWaiting } from './merging.ts'
import { largeCharactersOf, type Pace } from './pace.ts'
import type { Sink } from './sink.ts'

export interface Subscriber {
  live: LiveGroups
  /**
   * Takes turns among lagging subscribers: before each continues, and after a lookup for which many may have
   * waited.
   */
  turns: Turns
  answers: Answers
  viewer: Viewer
  sink: Sink
  pace: Pace
  /** Ends the subscription, which lags too far behind. */
  onTooSlow(): void
}

/** The number of characters sent before the sink is checked for backpressure. */
const MOST_GIVEN_CHARACTERS = 256 * 1024

/** Answers the events of a feed and sends the answers to the subscriber's sink, at the subscriber's pace. */
export function receiverOf(
  { lifeline: { signal } }: Pick<Feed<object>, 'lifeline'>,
  { answers, viewer, sink, pace, live, turns, onTooSlow }: Subscriber,
): Receiver<object> {
  /**
   * The newest data version that this subscriber has received. Data that it got elsewhere is older than its
   * start.
   */
  let known = moment()
  let hasBeenLive = false
  /** The subscriber has been past its pace since it was last caught up. */
  let isBehind = false
  const viewers = () => [viewer]
  const isThere = () => !signal.aborted

  async function ownAnswer(told: Told<object>): Promise<Answer> {
    const found = answers.answer(told, viewers, known)
    const answer = found instanceof Promise ? await inTurn(found, turns) : found
    const own = isPersonal(answer) ? answer.get(identityOf(viewer)) : answer
    // This viewer's execution failed while others' did not: retry alone.
    if (own === undefined) return ownAnswer({ ...told, of: null })
    if (own instanceof Error) throw own
    known = Math.max(known, own.asOf.to)
    return own
  }

  async function ownTurn(): Promise<void> {
    isBehind = true
    if (!(await pace.turn(signal))) onTooSlow()
  }

  /** Returns the answer once it may be delivered. An answer that has to wait is not kept, but executed again. */
  async function pacedAnswer(told: Told<object>): Promise<Answer> {
    const own = await ownAnswer(told)
    const large = largeCharactersOf(own)
    if (pace.take(large)) return own
    await ownTurn()
    if (!isThere()) return own
    const again = await ownAnswer(told)
    pace.spend(largeCharactersOf(again))
    return again
  }

  async function tell(told: readonly Told<object>[]): Promise<void> {
    await turns.next()
    let given: Answer[] = []
    let characters = 0
    const send = () => {
      if (isThere() && given.length > 0) sink.send(given)
      given = []
      characters = 0
    }
    let waiting = isBehind ? mergeWaiting(told) : told
    try {
      for (let next = 0; next < waiting.length; next++) {
        if (pace.isHeld) {
          send()
          await ownTurn()
          waiting = mergeWaiting(waiting.slice(next))
          next = 0
        }
        if (!isThere()) return
        const own = await pacedAnswer(waiting[next]!)
        if (!isTold(own)) continue
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
    tell,
    isPastPace: () => isBehind && hasBeenLive,
    async sit(window, seat, until, rules) {
      hasBeenLive = true
      if (!pace.isHeld) isBehind = false
      known = await live.sit({ answers, viewer, sink, pace, window, seat, rules, known }, until)
      while (pace.isHeld && !until.aborted) {
        isBehind = true
        const hasTurn = await pace.turn(until)
        if (!hasTurn && (window.ahead(seat)?.length ?? 1) > 0) return onTooSlow()
      }
    },
  }
}

/** Waits for an outcome, and then for a turn to deliver it. */
async function inTurn(outcome: Promise<Outcome>, turns: Turns): Promise<Outcome> {
  const settled = await outcome
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
