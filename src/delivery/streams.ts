import type { Viewer } from '../access/viewer.ts'
import { runTopic, spaceTopic } from '../broker/topics.ts'
import type { Domain } from '../graphql/domain.ts'
import type { Streams } from '../graphql/streams.ts'
import type { Platform } from '../platform/platform.ts'
import type { Announcer } from '../spaces/announcer.ts'
import { createActiveRuns } from './feeds/active-runs.ts'
import { createAgentActivity } from './feeds/agent.ts'
import { createRunEvents } from './feeds/run.ts'
import type { RunJournal } from './feeds/run-replay.ts'
import { createSpaceMessages } from './feeds/space.ts'
import { createViewerEvents } from './feeds/viewer.ts'
import { createGuards } from './guards.ts'
import { createEndedRuns, createPeriodicRecheck } from './recheck.ts'

export interface StreamsParts {
  platform: Pick<Platform, 'log' | 'signals' | 'clock' | 'logger'>
  domain: Domain
  announcer: Pick<Announcer, 'watch'>
  journal: RunJournal
}

/** The event sources of this process's subscriptions. */
export interface OwnStreams extends Streams {
  /** Calls `onEnd` when the viewer's token is no longer valid. Resolves with a function that stops watching. */
  watchToken(viewer: Viewer, onEnd: () => void): Promise<() => void>
  /** Like `watchToken`. In addition, the viewer counts as present until the watch is stopped. */
  watchViewer(viewer: Viewer, onEnd: () => void): Promise<() => void>
  close(): Promise<void>
}

export function createStreams({ platform, domain, announcer, journal }: StreamsParts): OwnStreams {
  const { log } = platform
  const { presence } = domain
  const recheck = createPeriodicRecheck(platform, domain)
  const guards = createGuards(platform, domain, recheck)
  const endedRuns = createEndedRuns(platform, domain)
  const activeRuns = createActiveRuns(platform, { domain, recheck })

  async function watch(viewer: Viewer, onEnd: () => void, leaving: (() => void)[]): Promise<() => void> {
    const leaveAll = () => {
      for (const leave of leaving.splice(0)) leave()
    }
    try {
      await guards.viewer(viewer, { fail: onEnd, onEnd: (leave) => leaving.push(leave) })
      return leaveAll
    } catch (error) {
      leaveAll()
      throw error
    }
  }

  return {
    spaceMessages: createSpaceMessages(platform, { guards, announcer, presence }),
    runEvents: createRunEvents(platform, { guards, domain, journal, endedRuns }),
    agentActivity: createAgentActivity(platform, { guards, domain, activeRuns }),
    viewerEvents: createViewerEvents(platform, { guards, domain }),
    spaceCursors: (spaceIds) => log.heads(spaceIds.map(spaceTopic)),
    runCursors: (runIds) => log.heads(runIds.map(runTopic)),
    watchToken: (viewer, onEnd) => watch(viewer, onEnd, []),
    watchViewer: (viewer, onEnd) => watch(viewer, onEnd, [presence.connect(viewer)]),
    async close() {
      recheck.close()
      await endedRuns.close()
    },
  }
}
