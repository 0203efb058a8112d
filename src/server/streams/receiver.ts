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
  /** Of those who are behind: before they go on, and once something was looked up for which all may have waited. */
  turns: Turns
  answers: Answers
  viewer: Viewer
  sink: Sink
  pace: Pace
  /** The subscription is too far behind: ends it. */
  onTooSlow(): void
}

/** Characters that are given to a sink at once: it is asked whether it takes more after so many. */
const MOST_GIVEN_CHARACTERS = 256 * 1024

/** Answers the events of a feed and gives the answers to the subscriber's sink, at the subscriber's pace. */
export function receiverOf(
  { lifeline: { signal } }: Pick<Feed<object>, 'lifeline'>,
  { answers, viewer, sink, pace, live, turns, onTooSlow }: Subscriber,
): Receiver<object> {
  /** What it has been told is at most as new as this; what it knows from elsewhere is older than its beginning. */
  let known = moment()
  let hasBeenLive = false
  /** It has been past its pace since it last had everything. */
  let isBehind = false
  const viewers = () => [viewer]
  const isThere = () => !signal.aborted

  async function ownAnswer(told: Told<object>): Promise<Answer> {
    const found = answers.answer(told, viewers, known)
    const answer = found instanceof Promise ? await inTurn(found, turns) : found
    const own = isPersonal(answer) ? answer.get(identityOf(viewer)) : answer
    // It failed, where others' did not.
    if (own === undefined) return ownAnswer({ ...told, of: null })
    if (own instanceof Error) throw own
    known = Math.max(known, own.asOf.to)
    return own
  }

  async function ownTurn(): Promise<void> {
    isBehind = true
    if (!(await pace.turn(signal))) onTooSlow()
  }

  /** The answer, once it may be delivered. One that has to wait is not kept meanwhile, but made again. */
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

/** What was looked up, once there is room to tell it. */
async function inTurn(outcome: Promise<Outcome>, turns: Turns): Promise<Outcome> {
  const settled = await outcome
  await turns.next()
  return settled
}

/** Resolves once the sink takes more, or the signal aborts. */
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
