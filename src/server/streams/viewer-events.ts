import { createBell } from '../../lib/async.ts'
import { messageOf } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import type { ViewerEvent, Watcher } from '../../schema/streams.ts'
import { type Feed, openFeed } from './feed.ts'
import type { Guards } from './guards.ts'
import { createSpacePace } from './space-pace.ts'
import { createViewerSources, type SourcesApp, type ViewerNews } from './viewer-sources.ts'

const FOREVER_MS = 2 ** 31 - 1
/** Waiting events of one subscriber; what is joined counts once. */
const MOST_WAITING = 1000

/**
 * What a side bar needs. Everything is joined that can be: a snapshot makes what waited before it superfluous, and of one
 * space at most two changes a second are told.
 */
export function createViewerEvents(
  platform: Pick<Platform, 'signals' | 'clock' | 'logger'>,
  { guards, app }: { guards: Guards; app: SourcesApp },
) {
  const { clock, logger } = platform
  const sources = createViewerSources(platform, { guards, app })

  return ({ viewer, onSlow }: Watcher): Promise<Feed<ViewerEvent>> =>
    openFeed(async (lifeline) => {
      const { signal } = lifeline
      const waiting: ViewerNews[] = [{ type: 'ViewerSnapshot' }]
      const bell = createBell()

      function push(news: ViewerNews): void {
        if (news.type === 'ViewerSnapshot') waiting.length = 0
        waiting.push(news)
        bell.ring()
        if (waiting.length > MOST_WAITING) onSlow()
      }

      const pace = createSpacePace((spaceId) => push({ type: 'ViewerSpaceChanged', spaceId }))

      function onNews(news: ViewerNews): void {
        if (news.type === 'ViewerSpaceRemoved') pace.forget(news.spaceId)
        if (news.type === 'ViewerSpaceChanged') pace.changed(news.spaceId)
        else push(news)
      }

      lifeline.onEnd(pace.close)
      await guards.viewer(viewer, lifeline)
      await sources.listen(viewer, lifeline, onNews, (error) =>
        logger.warn({ error: messageOf(error) }, 'what a viewer watches is incomplete'),
      )
      return async (to) => {
        while (!signal.aborted) {
          for (let news = waiting.shift(); news !== undefined && !signal.aborted; news = waiting.shift()) {
            await to.tell([{ of: null, event: { ...news, at: new Date(clock.now()) } }])
          }
          await bell.wait(FOREVER_MS, signal)
        }
      }
    })
}
