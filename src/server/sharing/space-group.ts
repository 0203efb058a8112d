import { setImmediate } from 'node:timers/promises'
import { sleep } from '../../lib/async.ts'
import { decodeCursor, encodeCursor, type Position } from '../../realtime/cursor.ts'
import { SlowConsumerError } from '../../realtime/event-log.ts'
import type { SpaceEvent } from '../../schema/streams.ts'
import type { SpaceSource } from '../streams/space-source.ts'
import { type AnsweringParts, createAnswering } from './answering.ts'
import { createArrivals } from './arrivals.ts'
import { createAudience, type Subscriber } from './audience.ts'
import { isBusy } from './outlet.ts'
import { patiently } from './patiently.ts'
import type { Rounds } from './rounds.ts'

/** Subscribers of one space by one operation: each event is executed and written out once for all who get the same. */
export interface SpaceGroup {
  /**
   * Tells a subscriber what comes after a place, or a snapshot and what comes after that, until it leaves by calling what
   * this answers. Where the group ends, so does the subscriber.
   */
  enter(subscriber: Subscriber, after: Position | null): () => void
}

export interface SpaceGroupParts extends AnsweringParts {
  source: SpaceSource
  rounds: Rounds
  spaceId: string
  /** Nobody is in it any more. */
  onEmpty(): void
}

/** Events in a row, before the sockets have their turn. */
const EVENTS_A_TURN = 32
const BUSY_PAUSE_MS = 5

export function createSpaceGroup(parts: SpaceGroupParts): SpaceGroup {
  const { source, spaceId, onEmpty } = parts
  const stop = new AbortController()
  const { signal } = stop
  const answering = createAnswering(parts)
  const arrivalsAnswering = createAnswering(parts)
  const audience = createAudience(parts.rounds)
  const inside = new Set<Subscriber>()
  /** The event that was taken up last: whoever has had this one misses nothing by joining. */
  let front: Position = { epoch: '', n: 0 }
  let told = 0
  let ending: { error: unknown } | null = null
  const started = start().catch(endAll)
  const arrivals = createArrivals({
    source,
    spaceId,
    answering: arrivalsAnswering,
    started,
    front: () => front,
    join: audience.join,
    signal,
  })

  async function start(): Promise<void> {
    const head = await patiently(() => source.head(spaceId), signal)
    if (head === null) return
    front = decodeCursor(head)
    void follow()
  }

  /** All events after the front, whatever becomes of the log. */
  async function follow(): Promise<void> {
    while (!signal.aborted) {
      try {
        await tellAfter(encodeCursor(front))
        return endAll(null)
      } catch (error) {
        if (!(error instanceof SlowConsumerError)) return endAll(error)
      }
    }
  }

  async function tellAfter(after: string): Promise<void> {
    const viewers = () => audience.members().map(({ viewer }) => viewer)
    for await (const delivery of source.follow(spaceId, { after, signal, onSlow: giveUpBusy })) {
      for (const event of source.eventsOf(spaceId, delivery)) {
        const position = decodeCursor(event.cursor)
        // What is of another epoch cannot be told from what comes later: it has to be told before somebody joins in this one.
        if (position.epoch !== front.epoch) audience.flush()
        // From here on, who joins must have had this event: what it is told may be older than what they know.
        front = position
        if (event.type === 'MemberLeft') await sayFarewell(event)
        audience.tell({ position, answers: await answering.answer(event, viewers) })
        await pace()
      }
    }
  }

  async function sayFarewell(event: SpaceEvent): Promise<void> {
    for (const member of audience.members()) {
      const farewell = await source.farewellTo(member.viewer, event)
      if (farewell === null) continue
      audience.flush()
      member.end(farewell)
    }
  }

  /** Lets the sockets have their turn; waits while every one of them is busy, so that nobody is lost who could keep up. */
  async function pace(): Promise<void> {
    told += 1
    if (told % EVENTS_A_TURN !== 0) return
    await setImmediate()
    while (!signal.aborted && areAllBusy()) await sleep(BUSY_PAUSE_MS, signal)
  }

  function areAllBusy(): boolean {
    const members = audience.members()
    return members.length > 0 && members.every(({ outlet }) => isBusy(outlet))
  }

  /** The group itself falls behind, since nobody in it takes any more. */
  function giveUpBusy(): void {
    for (const { outlet } of audience.members()) if (isBusy(outlet)) outlet.giveUp()
  }

  function endAll(error: unknown): void {
    ending = { error }
    audience.flush()
    end()
    for (const subscriber of [...inside]) subscriber.end(error)
  }

  function end(): void {
    stop.abort()
    answering.end()
    arrivalsAnswering.end()
    onEmpty()
  }

  return {
    enter(subscriber, after) {
      if (ending !== null) subscriber.end(ending.error)
      else {
        inside.add(subscriber)
        arrivals.enter(subscriber, after)
      }
      return () => {
        arrivals.leave(subscriber)
        audience.leave(subscriber)
        if (inside.delete(subscriber) && inside.size === 0) end()
      }
    },
  }
}
