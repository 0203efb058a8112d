import type { Viewer } from '../../access/viewer.ts'
import { isAfter, type Position } from '../../realtime/cursor.ts'
import { type Answers, answerFor } from './answering.ts'
import type { Outlet } from './outlet.ts'
import type { Rounds } from './rounds.ts'

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
  /** Tells an event, in the next round of writing. */
  tell(told: Told): void
  /** Tells at once what is still to be told. */
  flush(): void
}

/** Events that wait for the next round of writing at most. */
const MOST_IN_ROUND = 64

export function createAudience(rounds: Rounds): Audience {
  /** With the last event each has had, until it has been told of one after it. */
  const members = new Map<Subscriber, Position | null>()
  let pending: Told[] = []

  function tell(told: Told): void {
    pending.push(told)
    if (pending.length >= MOST_IN_ROUND) flush()
    else if (pending.length === 1) rounds.next(flush)
  }

  function flush(): void {
    const told = pending
    pending = []
    if (told.length === 0) return
    const texts = told.map(({ answers }) => answers)
    const isCommon = texts.every((answers) => typeof answers === 'string')
    for (const [member, after] of members) {
      if (after === null && isCommon) member.outlet.sendAll(member.head, texts)
      else {
        const missed = after === null ? told : told.filter(({ position }) => isAfter(position, after))
        sendOwn(member, missed)
        if (missed.length > 0 && members.has(member)) members.set(member, null)
      }
    }
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
