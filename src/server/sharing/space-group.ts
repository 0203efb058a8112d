import type { ExecutionResult } from 'graphql'
import type { Viewer } from '../../access/viewer.ts'
import { sleep } from '../../lib/async.ts'
import { decodeCursor, encodeCursor, type Position } from '../../realtime/cursor.ts'
import { type Delivery, SlowConsumerError } from '../../realtime/event-log.ts'
import type { SpaceEvent } from '../../schema/streams.ts'
import { leftBehind, type SpaceSource } from '../streams/space-source.ts'
import type { Outlet } from './outlet.ts'
import { patiently } from './patiently.ts'

/** A subscriber that has caught up. */
export interface Member {
  viewer: Viewer
  outlet: Outlet
  /** What each of its messages begins with, up to the payload. */
  head: Buffer
  /** The last event that it has had; null once it has had all that the group was told since it joined. */
  after: Position | null
  /** Ends its subscription with an error, or without one. It leaves at once. */
  end(error: unknown): void
}

/** Subscribers of one space who get the same answers: each event is executed and written out once for all of them. */
export interface SpaceGroup {
  /** Keeps the group going, until the answer is called. */
  hold(): () => void
  /** Resolves once it listens, so that nothing after `front` is missed. */
  standing(): Promise<void>
  /** The event that was taken up last: whoever has had this one misses nothing by joining. */
  front(): Position
  /** From now on the member gets every event after its own position; the end, where the group has ended. Answers with the way to leave. */
  join(member: Member): () => void
  /** Entries after a cursor; those who ask at the same time share one read. Null when the group ends. */
  read(after: string): Promise<Delivery | null>
}

export interface SpaceGroupParts {
  source: SpaceSource
  spaceId: string
  /** Answers events by the members' common operation, one after the other. @throws what refuses the operation. */
  execute(events: AsyncIterable<SpaceEvent>): Promise<AsyncIterable<ExecutionResult>>
  payloadOf(result: ExecutionResult): string
  /** Nobody holds it any more. */
  onEmpty(): void
}

/** Events in a row, before the sockets have their turn. */
const EVENTS_A_TURN = 32
/** Texts that wait at a member which is not to be given more yet, if all are like it. */
const MANY_WAITING_TEXTS = 200
const BUSY_PAUSE_MS = 5

export function createSpaceGroup({ source, spaceId, execute, payloadOf, onEmpty }: SpaceGroupParts): SpaceGroup {
  const stop = new AbortController()
  const members = new Set<Member>()
  const reads = new Map<string, Promise<Delivery | null>>()
  let holders = 0
  let front: Position = { epoch: '', n: 0 }
  let told = 0
  /** Why it ended, where that was a failure. */
  let failure: unknown = null
  const started = start()
  started.catch(() => {})

  async function start(): Promise<void> {
    const head = await patiently(() => source.head(spaceId), stop.signal)
    if (head === null) return
    front = decodeCursor(head)
    void pump()
  }

  async function pump(): Promise<void> {
    try {
      for await (const result of await execute(allEvents())) {
        tell(payloadOf(result))
        await pace()
      }
      endAll(null)
    } catch (error) {
      endAll(error)
    }
  }

  /** All events after the front, whatever becomes of the log. */
  async function* allEvents(): AsyncGenerator<SpaceEvent> {
    while (!stop.signal.aborted) {
      try {
        yield* eventsAfter(encodeCursor(front))
        return
      } catch (error) {
        if (!(error instanceof SlowConsumerError)) throw error
      }
    }
  }

  async function* eventsAfter(after: string): AsyncGenerator<SpaceEvent> {
    const { signal } = stop
    for await (const delivery of source.follow(spaceId, { after, signal, onSlow: giveUpBusy })) {
      for (const event of source.eventsOf(spaceId, delivery)) {
        // From here on, who joins must have had this event: what it is told may be older than what they know.
        front = decodeCursor(event.cursor)
        if (event.type === 'MemberLeft') await sayFarewell(event)
        yield event
      }
    }
  }

  async function sayFarewell(event: SpaceEvent): Promise<void> {
    const concerned = [...members].filter(({ viewer }) => event.type === 'MemberLeft' && viewer.id === event.entityId)
    for (const member of concerned) {
      if (await source.isFarewell(member.viewer, event)) member.end(leftBehind())
    }
  }

  function tell(payload: string): void {
    const rest = Buffer.from(`${payload}}`)
    for (const member of members) {
      if (member.after !== null && !isAfter(front, member.after)) continue
      member.after = null
      member.outlet.sendPieces(member.head, rest)
    }
  }

  /** Lets the sockets have their turn; waits while every one of them is busy, so that nobody is lost who could keep up. */
  async function pace(): Promise<void> {
    told += 1
    if (told % EVENTS_A_TURN !== 0) return
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (members.size > 0 && !stop.signal.aborted && [...members].every(isBusy)) {
      await sleep(BUSY_PAUSE_MS, stop.signal)
    }
  }

  /** The group itself falls behind, since nobody in it takes any more. */
  function giveUpBusy(): void {
    for (const member of [...members]) if (isBusy(member)) member.outlet.giveUp()
  }

  function endAll(error: unknown): void {
    failure = error
    stop.abort()
    onEmpty()
    for (const member of [...members]) member.end(error)
  }

  return {
    hold() {
      holders += 1
      let held = true
      return () => {
        if (!held) return
        held = false
        holders -= 1
        if (holders > 0) return
        stop.abort()
        onEmpty()
      }
    },
    standing: () => started,
    front: () => front,
    join(member) {
      if (stop.signal.aborted) member.end(failure)
      else members.add(member)
      return () => members.delete(member)
    },
    read(after) {
      const known = reads.get(after)
      if (known !== undefined) return known
      const read = patiently(() => source.read(spaceId, after), stop.signal).finally(() => reads.delete(after))
      reads.set(after, read)
      return read
    },
  }
}

/** Whether a member has much before it; one whose socket closes has nothing. */
function isBusy({ outlet }: Member): boolean {
  return outlet.isOpen() && outlet.waiting() > MANY_WAITING_TEXTS
}

function isAfter(position: Position, other: Position): boolean {
  return position.epoch !== other.epoch || position.n > other.n
}
