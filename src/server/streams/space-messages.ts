import { ForbiddenError } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import type { Delivery } from '../../realtime/event-log.ts'
import { type SpaceLogEvent, spaceTopic } from '../../realtime/topics.ts'
import type { App } from '../../schema/app.ts'
import type { SpaceEvent, Watcher } from '../../schema/streams.ts'
import type { Guards } from './guards.ts'
import { createLiveIteration } from './live-iteration.ts'
import { standing } from './standing.ts'

export interface SpaceMessagesParts {
  guards: Guards
  app: Pick<App, 'visibility'>
  /** Finds what was committed and never announced, while somebody watches. */
  announcer: { watch(spaceId: string): () => void }
}

/** The events of one space, as its subscribers get them: a snapshot or what they missed, then what comes. */
export function createSpaceMessages({ log, clock }: Pick<Platform, 'log' | 'clock'>, parts: SpaceMessagesParts) {
  const { guards, app, announcer } = parts

  function snapshotAt(spaceId: string, cursor: string): SpaceEvent {
    return { type: 'SpaceSnapshot', cursor, at: new Date(clock.now()), spaceId }
  }

  /** A log that is resumed tells of leaving that was undone since: what counts is whether one is a member now. */
  async function checkLeaving({ viewer }: Watcher, spaceId: string, event: SpaceLogEvent): Promise<void> {
    if (event.type !== 'MemberLeft' || event.entityId !== viewer.id) return
    const visible = await app.visibility.spaces(viewer, [spaceId])
    if (!visible.has(spaceId)) throw new ForbiddenError('You are not a member of this space any more.')
  }

  async function* eventsOf(
    deliveries: AsyncIterable<Delivery>,
    watcher: Watcher,
    spaceId: string,
  ): AsyncGenerator<SpaceEvent> {
    for await (const delivery of deliveries) {
      if (delivery.type === 'gap') yield snapshotAt(spaceId, delivery.cursor)
      else {
        for (const { cursor, at, event } of delivery.entries) {
          await checkLeaving(watcher, spaceId, event as SpaceLogEvent)
          yield { ...(event as SpaceLogEvent), cursor, at: new Date(at), spaceId }
        }
      }
    }
  }

  return async (
    watcher: Watcher,
    { spaceId, after }: { spaceId: string; after: string | null },
  ): Promise<AsyncIterable<SpaceEvent>> => {
    const live = createLiveIteration<SpaceEvent>()
    const iteration = live.from(() => eventsOf(deliveries, watcher, spaceId))
    const follow = () =>
      log.follow(spaceTopic(spaceId), { after: after ?? undefined, signal: live.signal, onSlow: watcher.onSlow })
    const deliveries = await standing(iteration, async () => {
      await guards.viewer(watcher.viewer, live)
      await guards.space(watcher.viewer, spaceId, live)
      live.onEnd(announcer.watch(spaceId))
      return follow()
    })
    return iteration
  }
}
