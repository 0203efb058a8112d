import { createBell } from '../../lib/async.ts'
import { messageOf } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import type { ViewerEvent, Watcher } from '../../schema/streams.ts'
import { type Feed, openFeed } from './feed.ts'
import type { Guards } from './guards.ts'
import { createSpacePace } from './space-pace.ts'
import { createViewerSources, type SourcesDomain, type ViewerChange } from './viewer-sources.ts'

const FOREVER_MS = 2 ** 31 - 1
/** The maximum number of waiting events of one subscriber, after merging. */
const MOST_WAITING = 1000

/**
 * The waiting changes of a subscriber, merged: a snapshot replaces all changes before it, and a change of the
 * same type as the last waiting one of its space or call is not added, since the entity is read at delivery.
 */
export function createWaitingChanges() {
  const waiting: ViewerChange[] = []
  /** The type of the last waiting change of each space and call. */
  const lastTypes = new Map<string, ViewerChange['type']>()

  return {
    add(change: ViewerChange): void {
      if (change.type === 'ViewerSnapshot') {
        waiting.length = 0
        lastTypes.clear()
      }
      const subject = subjectOf(change)
      if (lastTypes.get(subject) === change.type) return
      lastTypes.set(subject, change.type)
      waiting.push(change)
    },
    next(): ViewerChange | undefined {
      const change = waiting.shift()
      if (change === undefined) return undefined
      const subject = subjectOf(change)
      if (!waiting.some((other) => subjectOf(other) === subject)) lastTypes.delete(subject)
      return change
    },
    count: () => waiting.length,
  }
}

function subjectOf(change: ViewerChange): string {
  if ('spaceId' in change) return change.spaceId
  return 'toolCallId' in change ? change.toolCallId : ''
}

/**
 * The events that a side bar needs, merged as far as possible: see createWaitingChanges. A space is delivered
 * at most twice a second.
 */
export function createViewerEvents(
  platform: Pick<Platform, 'signals' | 'clock' | 'logger'>,
  { guards, domain }: { guards: Guards; domain: SourcesDomain },
) {
  const { clock, logger } = platform
  const sources = createViewerSources(platform, { guards, domain })

  return ({ viewer, onSlow }: Watcher): Promise<Feed<ViewerEvent>> =>
    openFeed(async (lifeline) => {
      const { signal } = lifeline
      const waiting = createWaitingChanges()
      waiting.add({ type: 'ViewerSnapshot' })
      const bell = createBell()

      function push(change: ViewerChange): void {
        waiting.add(change)
        bell.ring()
        if (waiting.count() > MOST_WAITING) onSlow()
      }

      const pace = createSpacePace((spaceId) => push({ type: 'ViewerSpaceChanged', spaceId }))

      function onChange(change: ViewerChange): void {
        if (change.type === 'ViewerSpaceRemoved') pace.forget(change.spaceId)
        if (change.type === 'ViewerSpaceChanged') pace.changed(change.spaceId)
        else push(change)
      }

      lifeline.onEnd(pace.close)
      await guards.viewer(viewer, lifeline)
      await sources.listen(viewer, lifeline, onChange, (error) =>
        logger.warn({ error: messageOf(error) }, 'could not update the topics of a viewer subscription'),
      )
      return async (to) => {
        while (!signal.aborted) {
          for (let change = waiting.next(); change !== undefined && !signal.aborted; change = waiting.next()) {
            await to.tell([{ of: null, event: { ...change, at: new Date(clock.now()) } }])
          }
          await bell.wait(FOREVER_MS, signal)
        }
      }
    })
}
