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

/** Events on their way to the members. */
interface Telling {
  told: readonly Told[]
  /** Where each event comes to the same for all. */
  texts: readonly string[] | null
  left: Iterator<[Subscriber, Position | null]>
}

export function createAudience(rounds: Rounds): Audience {
  /** With the last event each has had, until it has been told of one after it. */
  const members = new Map<Subscriber, Position | null>()
  let pending: Told[] = []
  let telling: Telling | null = null

  function tell(told: Told): void {
    pending.push(told)
    if (pending.length >= MOST_IN_ROUND) flush()
    else if (pending.length === 1) rounds.next(tellSome)
  }

  /** Tells so many members at most; those who join meanwhile come last. */
  function tellSome(most: number): number {
    if (telling === null && pending.length === 0) return 0
    telling ??= begin()
    const current = telling
    for (let count = 0; count < most; count++) {
      const { done, value } = current.left.next()
      if (done) {
        telling = null
        return count
      }
      tellMember(...value, current)
    }
    return most
  }

  function begin(): Telling {
    const told = pending
    pending = []
    const texts = told.map(({ answers }) => answers)
    const isCommon = texts.every((answers) => typeof answers === 'string')
    return { told, texts: isCommon ? texts : null, left: members.entries() }
  }

  function tellMember(member: Subscriber, after: Position | null, { told, texts }: Telling): void {
    if (after === null && texts !== null) {
      member.outlet.sendAll(member.head, texts)
      return
    }
    const missed = after === null ? told : told.filter(({ position }) => isAfter(position, after))
    sendOwn(member, missed)
    if (missed.length > 0 && members.has(member)) members.set(member, null)
  }

  function flush(): void {
    while (telling !== null || pending.length > 0) tellSome(Number.POSITIVE_INFINITY)
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
