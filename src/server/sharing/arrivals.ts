import { setImmediate } from 'node:timers/promises'
import { sleep } from '../../lib/async.ts'
import { decodeCursor, encodeCursor, isAfter, type Position } from '../../realtime/cursor.ts'
import type { SpaceEvent } from '../../schema/streams.ts'
import type { SpaceSource } from '../streams/space-source.ts'
import type { Answering } from './answering.ts'
import { type Subscriber, sendOwn, type Told } from './audience.ts'
import { isBusy } from './outlet.ts'
import { patiently } from './patiently.ts'

/** Subscribers who have yet to be told a snapshot, or what they missed. Those who come at the same time are served together. */
export interface Arrivals {
  enter(subscriber: Subscriber, after: Position | null): void
  leave(subscriber: Subscriber): void
}

export interface ArrivalsParts {
  source: SpaceSource
  spaceId: string
  answering: Answering
  /** Resolves once there is a front. */
  started: Promise<unknown>
  /** The event after which everything is told to those who have joined. */
  front(): Position
  /** Takes over a subscriber that has had everything up to a place, the front or one after it. */
  join(subscriber: Subscriber, after: Position): void
  signal: AbortSignal
}

interface Arrival {
  subscriber: Subscriber
  /** The last event it has had; null for one that needs a snapshot. */
  position: Position | null
  /** Whether the log knows of that place: a cursor that a client brings may be anybody's. */
  isKnown: boolean
}

/** How long to wait for the group to learn that the log begins anew. */
const EPOCH_WAIT_MS = 100

export function createArrivals(parts: ArrivalsParts): Arrivals {
  const { source, spaceId, answering, started, front, join, signal } = parts
  const waiting = new Map<Subscriber, Arrival>()
  /** Those who are not told more before they have taken what they were told. */
  const aside = new Set<Arrival>()
  let isServing = false
  let steps = 0

  /** One round after the other; who comes during one has to wait for the next, which takes over those who have more to take. */
  async function serve(): Promise<void> {
    if (isServing) return
    isServing = true
    await started
    while (waiting.size > 0 && !signal.aborted) {
      const round = new Set(waiting.values())
      try {
        await serveRound(round)
      } catch (error) {
        for (const { subscriber } of round) if (waiting.delete(subscriber)) subscriber.end(error)
      }
    }
    isServing = false
  }

  async function serveRound(round: Set<Arrival>): Promise<void> {
    const newcomers = [...round].filter(({ position }) => position === null)
    if (newcomers.length > 0) {
      await tellAll([source.snapshotAt(spaceId, encodeCursor(front()))], newcomers)
      for (const newcomer of newcomers) newcomer.isKnown = true
    }
    for (let isFirst = true; ; isFirst = false) {
      for (const arrival of round) if (isDone(arrival)) round.delete(arrival)
      const isAwaited = !isFirst && waiting.size > round.size
      if (round.size === 0 || isAwaited || signal.aborted) return
      await advance([...round])
      await setImmediate()
    }
  }

  /** Whether an arrival needs nothing more of its round: it is gone, has caught up, or has to take what it was told first. */
  function isDone(arrival: Arrival): boolean {
    const { subscriber, position, isKnown } = arrival
    if (!waiting.has(subscriber)) return true
    if (isKnown && position !== null && hasReached(position, front())) {
      waiting.delete(subscriber)
      join(subscriber, position)
      return true
    }
    if (!isBusy(subscriber.outlet)) return false
    setAside(arrival)
    return true
  }

  function setAside(arrival: Arrival): void {
    const { subscriber } = arrival
    waiting.delete(subscriber)
    aside.add(arrival)
    void subscriber.outlet.drained().then(() => {
      if (!aside.delete(arrival)) return
      waiting.set(subscriber, arrival)
      void serve()
    })
  }

  /** Takes those who are at one place a step further, and with them everybody whom the same read concerns. */
  async function advance(round: Arrival[]): Promise<void> {
    // Those furthest behind take all others along; the nearest ones, who are soon done, do not wait until they are.
    steps += 1
    const from = placeOf(round, front(), steps % 2 === 1 ? 'earliest' : 'latest')
    const delivery = await patiently(() => source.read(spaceId, encodeCursor(from)), signal)
    if (delivery === null) return
    const events = source.eventsOf(spaceId, delivery)
    const isGap = delivery.type === 'gap'
    const isOfLostEpoch = isGap && decodeCursor(delivery.cursor).epoch !== from.epoch
    const onwards = round.filter(({ position }) => position?.epoch === from.epoch && position.n >= from.n)
    const answered = isOfLostEpoch ? onwards : onwards.filter(({ position }) => position?.n === from.n)
    for (const arrival of answered) {
      arrival.isKnown = true
      // Also where its place is after the gap: a cursor may be ahead of the log.
      if (isGap) arrival.position = null
    }
    if (events.length > 0) await tellAll(events, isGap ? answered : onwards)
    else if (!hasReached(from, front())) await sleep(EPOCH_WAIT_MS, signal)
  }

  /** Tells each the events after its place, in one write. Stops where all of them have gone. */
  async function tellAll(events: SpaceEvent[], concerned: Arrival[]): Promise<void> {
    const told: Told[] = []
    const missedBy = ({ position }: Arrival) =>
      told.filter((one) => position === null || isAfter(one.position, position))
    for (const event of events) {
      const position = decodeCursor(event.cursor)
      const behind = concerned.filter((one) => one.position === null || isAfter(position, one.position))
      if (event.type === 'MemberLeft') await sayFarewell(event, behind, missedBy)
      if (!concerned.some(({ subscriber }) => waiting.has(subscriber))) return
      const viewers = () => behind.map(({ subscriber }) => subscriber.viewer)
      told.push({ position, answers: await answering.answer(event, viewers) })
    }
    const last = told.at(-1)?.position
    for (const arrival of concerned) {
      if (!waiting.has(arrival.subscriber)) continue
      const missed = missedBy(arrival)
      sendOwn(arrival.subscriber, missed)
      if (last !== undefined && missed.length > 0) arrival.position = last
    }
  }

  async function sayFarewell(
    event: SpaceEvent,
    concerned: Arrival[],
    missedBy: (one: Arrival) => Told[],
  ): Promise<void> {
    for (const arrival of concerned) {
      const { subscriber } = arrival
      const farewell = await source.farewellTo(subscriber.viewer, event)
      if (farewell === null || !waiting.has(subscriber)) continue
      sendOwn(subscriber, missedBy(arrival))
      subscriber.end(farewell)
    }
  }

  return {
    enter(subscriber, after) {
      waiting.set(subscriber, { subscriber, position: after, isKnown: false })
      void serve()
    },
    leave(subscriber) {
      waiting.delete(subscriber)
      for (const arrival of aside) if (arrival.subscriber === subscriber) aside.delete(arrival)
    },
  }
}

/** A place of an epoch: of the group's own, or where nobody is in that, of any. */
function placeOf(round: Arrival[], { epoch }: Position, which: 'earliest' | 'latest'): Position {
  const places = round.flatMap(({ position }) => position ?? [])
  const some = places.find((place) => place.epoch === epoch) ?? places[0]
  const ofEpoch = places.filter((place) => place.epoch === some?.epoch).toSorted((a, b) => a.n - b.n)
  const place = ofEpoch.at(which === 'earliest' ? 0 : -1)
  if (place === undefined) throw new Error('an arrival without a place')
  return place
}

function hasReached(position: Position, front: Position): boolean {
  return position.epoch === front.epoch && position.n >= front.n
}
