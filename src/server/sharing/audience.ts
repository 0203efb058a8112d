import type { Viewer } from '../../access/viewer.ts'
import { isAfter, type Position } from '../../realtime/cursor.ts'
import { type Answers, answerFor } from './answering.ts'
import type { Outlet } from './outlet.ts'

export interface Subscriber {
  viewer: Viewer
  outlet: Outlet
  /** What each of its messages begins with, up to the answer. A binary string. */
  head: string
  /** Ends its subscription with an error, or without one. It leaves at once. */
  end(error: unknown): void
}

/** What one event comes to, and its place. */
export interface Told {
  position: Position
  answers: Answers
}

/** Subscribers who have caught up, and are told of everything from then on. */
export interface Audience {
  /** From now on it gets every event after the one that it has had last. */
  join(subscriber: Subscriber, after: Position): void
  leave(subscriber: Subscriber): void
  members(): Subscriber[]
  /** Tells an event: at the end of this tick, or a little later where the events come thick and fast. */
  tell(told: Told): void
  /** Tells at once what is still to be told. */
  flush(): void
}

/** The longest rest between two rounds of writing, and the shortest that is worth a timer. */
const LONGEST_REST_MS = 25
const SHORTEST_REST_MS = 1
/** Events that wait for the next round at most. */
const MOST_IN_ROUND = 64

/**
 * Writes to all in rounds: the first event at once, and after each round a rest as long as the round was, so that the more
 * there is to write the more events leave in one write, and half the time is left for everything else.
 */
export function createAudience(): Audience {
  /** With the last event each has had, until it has been told of one after it. */
  const members = new Map<Subscriber, Position | null>()
  let round: Told[] = []
  let restsUntil = 0
  let timer: NodeJS.Timeout | null = null

  function tell(told: Told): void {
    round.push(told)
    if (round.length >= MOST_IN_ROUND) flush()
    else if (round.length === 1) scheduleFlush()
  }

  function scheduleFlush(): void {
    const restMs = restsUntil - performance.now()
    if (restMs < SHORTEST_REST_MS) process.nextTick(flush)
    else timer = setTimeout(flush, restMs)
  }

  function flush(): void {
    if (timer !== null) clearTimeout(timer)
    timer = null
    const told = round
    round = []
    if (told.length === 0) return
    const startedAt = performance.now()
    const texts = told.map(({ answers }) => answers)
    const isCommon = texts.every((answers) => typeof answers === 'string')
    for (const [member, after] of members) {
      if (after === null && isCommon) member.outlet.sendAll(member.head, texts)
      else {
        sendOwn(member, after === null ? told : told.filter(({ position }) => isAfter(position, after)))
        members.set(member, null)
      }
    }
    const endedAt = performance.now()
    restsUntil = endedAt + Math.min(endedAt - startedAt, LONGEST_REST_MS)
  }

  return {
    join: (subscriber, after) => void members.set(subscriber, after),
    leave: (subscriber) => void members.delete(subscriber),
    members: () => [...members.keys()],
    tell,
    flush,
  }
}

/** Sends what events come to for one subscriber, up to what refuses it. */
export function sendOwn(subscriber: Subscriber, told: readonly Told[]): void {
  const { viewer, outlet, head, end } = subscriber
  const texts: string[] = []
  let refusal: Error | null = null
  for (const { answers } of told) {
    const answer = answerFor(answers, viewer)
    if (typeof answer === 'string') texts.push(answer)
    else refusal ??= answer ?? null
    if (refusal !== null) break
  }
  if (texts.length > 0) outlet.sendAll(head, texts)
  if (refusal !== null) end(refusal)
}
