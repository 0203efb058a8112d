import type { Delivery } from '../../realtime/event-log.ts'
import type { SpaceEvent, Watcher } from '../../schema/streams.ts'
import { createLiveIteration } from './live-iteration.ts'
import type { SpaceSource } from './space-source.ts'
import { standing } from './standing.ts'

/** The events of one space, as its subscribers get them: a snapshot or what they missed, then what comes. */
export function createSpaceMessages(source: SpaceSource) {
  async function* eventsOf(
    deliveries: AsyncIterable<Delivery>,
    { viewer }: Watcher,
    spaceId: string,
  ): AsyncGenerator<SpaceEvent> {
    for await (const delivery of deliveries) yield* source.eventsFor(viewer, spaceId, delivery)
  }

  return async (
    watcher: Watcher,
    { spaceId, after }: { spaceId: string; after: string | null },
  ): Promise<AsyncIterable<SpaceEvent>> => {
    const live = createLiveIteration<SpaceEvent>()
    const iteration = live.from(() => eventsOf(deliveries, watcher, spaceId))
    const follow = () =>
      source.follow(spaceId, { after: after ?? undefined, signal: live.signal, onSlow: watcher.onSlow })
    const deliveries = await standing(iteration, async () => {
      await source.admit(watcher.viewer, spaceId, live)
      return follow()
    })
    return iteration
  }
}
