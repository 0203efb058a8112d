import { createBell } from '../../lib/async.ts'
import { messageOf } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import { agentChannel, spaceChannel } from '../../realtime/topics.ts'
import type { App } from '../../schema/app.ts'
import type { AgentActivityEvent, Watcher } from '../../schema/streams.ts'
import { createChannelSet } from './channel-set.ts'
import type { Guards } from './guards.ts'
import { createLiveIteration, type Lifeline } from './live-iteration.ts'
import { standing } from './standing.ts'

const FOREVER_MS = 2 ** 31 - 1

/**
 * Which agents of a space to look at, and when: all of them first, then each whose runs changed. Changes of one agent that
 * come before it was looked at are one.
 */
export function createAgentActivity(
  { signals, clock, logger }: Pick<Platform, 'signals' | 'clock' | 'logger'>,
  { guards, app }: { guards: Guards; app: Pick<App, 'members'> },
) {
  async function agentsOf(spaceId: string): Promise<string[]> {
    const members = (await app.members.listMany([spaceId])).get(spaceId) ?? []
    return members.filter(({ kind }) => kind === 'AGENT').map(({ id }) => id)
  }

  /** Listens to a space and its agents, and says whom to look at. */
  async function watchAgents(spaceId: string, lifeline: Lifeline, onChange: (agentId: string) => void): Promise<void> {
    let agentIds: string[] = []
    const agentsNow = async () => {
      agentIds = await agentsOf(spaceId)
      return agentIds.map(agentChannel)
    }
    const agents = createChannelSet(signals, lifeline, agentsNow, (channel, { type }) => {
      const agentId = agentIds.find((id) => agentChannel(id) === channel)
      if (type === 'run-changed' && agentId !== undefined) onChange(agentId)
    })
    const tellNewcomers = ({ came }: { came: string[] }) => {
      for (const id of agentIds) if (came.includes(agentChannel(id))) onChange(id)
    }
    const tellAll = () => {
      for (const id of agentIds) onChange(id)
    }
    const refreshLater = (tell: typeof tellNewcomers) =>
      void agents
        .refresh(tell)
        .catch((error) => logger.warn({ spaceId, error: messageOf(error) }, 'activity is incomplete'))

    const stop = await signals.subscribe(spaceChannel(spaceId), ({ type }) => {
      if (type === 'member-joined' || type === 'member-left') refreshLater(tellNewcomers)
    })
    lifeline.onEnd(stop)
    lifeline.onEnd(signals.onReconnect(() => refreshLater(tellAll)))
    await agents.refresh(tellNewcomers)
  }

  return async ({ viewer }: Watcher, { spaceId }: { spaceId: string }): Promise<AsyncIterable<AgentActivityEvent>> => {
    const live = createLiveIteration<AgentActivityEvent>()
    const changed = new Set<string>()
    const bell = createBell()

    async function* activities(signal: AbortSignal): AsyncGenerator<AgentActivityEvent> {
      while (!signal.aborted) {
        for (const agentId of changed) {
          changed.delete(agentId)
          yield { at: new Date(clock.now()), spaceId, agentId }
        }
        await bell.wait(FOREVER_MS, signal)
      }
    }

    const iteration = live.from(activities)
    await standing(iteration, async () => {
      await guards.viewer(viewer, live)
      await guards.space(viewer, spaceId, live)
      await watchAgents(spaceId, live, (agentId) => {
        changed.add(agentId)
        bell.ring()
      })
    })
    return iteration
  }
}
