import type { Viewer } from '../../access/viewer.ts'
import type { Platform } from '../../platform/platform.ts'
import { runTopic, spaceTopic } from '../../realtime/topics.ts'
import type { Domain } from '../../schema/domain.ts'
import type { Streams } from '../../schema/streams.ts'
import { createActiveRuns } from './active-runs.ts'
import { createAgentActivity } from './agent-activity.ts'
import { createEndedRuns } from './ended-runs.ts'
import { createGuards } from './guards.ts'
import { createRunEvents } from './run-events.ts'
import type { RunJournal } from './run-replay.ts'
import { createSecondLook } from './second-look.ts'
import { createSpaceMessages } from './space-messages.ts'
import { createViewerEvents } from './viewer-events.ts'

export interface StreamsParts {
  platform: Pick<Platform, 'log' | 'signals' | 'clock' | 'logger'>
  domain: Domain
  announcer: { watch(spaceId: string): () => void }
  journal: RunJournal
}

/** The event sources of this process's subscriptions. */
export interface OwnStreams extends Streams {
  /** Calls `onEnd` when the viewer's token is no longer valid. Returns a function that stops watching. */
  watchViewer(viewer: Viewer, onEnd: () => void): Promise<() => void>
  close(): Promise<void>
}

export function createStreams({ platform, domain, announcer, journal }: StreamsParts): OwnStreams {
  const { log } = platform
  const secondLook = createSecondLook(platform, domain)
  const guards = createGuards(platform, domain, secondLook)
  const endedRuns = createEndedRuns(platform, domain)
  const activeRuns = createActiveRuns(platform, { domain, secondLook })
  return {
    spaceMessages: createSpaceMessages(platform, { guards, domain, announcer }),
    runEvents: createRunEvents(platform, { guards, domain, journal, endedRuns }),
    agentActivity: createAgentActivity(platform, { guards, domain, activeRuns }),
    viewerEvents: createViewerEvents(platform, { guards, domain }),
    spaceCursors: (spaceIds) => log.heads(spaceIds.map(spaceTopic)),
    runCursors: (runIds) => log.heads(runIds.map(runTopic)),
    async watchViewer(viewer, onEnd) {
      const leaving: (() => void)[] = []
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
    },
    async close() {
      secondLook.close()
      await endedRuns.close()
    },
  }
}
