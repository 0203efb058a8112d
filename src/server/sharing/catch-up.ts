import type { Viewer } from '../../access/viewer.ts'
import { sleep } from '../../lib/async.ts'
import { decodeCursor, encodeCursor, type Position } from '../../realtime/cursor.ts'
import type { SpaceEvent } from '../../schema/streams.ts'
import type { SpaceSource } from '../streams/space-source.ts'
import type { SpaceGroup } from './space-group.ts'

export interface CatchingUp {
  source: SpaceSource
  group: SpaceGroup
  viewer: Viewer
  spaceId: string
  /** The last event that the subscriber saw; null for a new one. */
  after: string | null
  signal: AbortSignal
  /** Called at the end, at the moment when the next event is the group's to tell. */
  join(at: Position): void
}

/** How long to wait for a group to learn that the log begins anew. */
const EPOCH_WAIT_MS = 100

/** What a subscriber has to be told before it can join its group: a snapshot, or what it missed. */
export async function* catchUp(options: CatchingUp): AsyncGenerator<SpaceEvent> {
  const { source, group, viewer, spaceId, after, signal, join } = options
  await group.standing()
  let position = after === null ? group.front() : decodeCursor(after)
  if (after === null) yield source.snapshotAt(spaceId, encodeCursor(position))
  // A cursor that a client brings may be anybody's: the log is asked about it in any case.
  let isKnown = after === null
  while (!signal.aborted) {
    if (isKnown && hasReached(position, group.front())) return join(position)
    const delivery = await group.read(encodeCursor(position))
    if (delivery === null) return join(position)
    for await (const event of source.eventsFor(viewer, spaceId, delivery)) {
      position = decodeCursor(event.cursor)
      yield event
    }
    isKnown = true
    if (position.epoch !== group.front().epoch) await sleep(EPOCH_WAIT_MS, signal)
  }
}

function hasReached(position: Position, front: Position): boolean {
  return position.epoch === front.epoch && position.n >= front.n
}
