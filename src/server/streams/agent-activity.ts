import { createBell } from '../../lib/async.ts'
import { messageOf, NotFoundError } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import { agentChannel, spaceChannel } from '../../realtime/topics.ts'
import type { App } from '../../schema/app.ts'
import type { AgentActivityEvent, Watcher } from '../../schema/streams.ts'
import { createChannelSet } from './channel-set.ts'
import { type Feed, openFeed } from './feed.ts'
import type { Guards } from './guards.ts'
import type { Lifeline } from './lifeline.ts'
import { SPACE_DELETED } from './space-messages.ts'

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
      if (type === 'deleted') lifeline.fail(new NotFoundError(SPACE_DELETED))
    })
    lifeline.onEnd(stop)
    lifeline.onEnd(signals.onReconnect(() => refreshLater(tellAll)))
    await agents.refresh(tellNewcomers)
  }

  return ({ viewer }: Watcher, { spaceId }: { spaceId: string }): Promise<Feed<AgentActivityEvent>> =>
    openFeed(async (lifeline) => {
      const { signal } = lifeline
      const changed = new Set<string>()
      const bell = createBell()
      await guards.viewer(viewer, lifeline)
      await guards.space(viewer, spaceId, lifeline)
      await watchAgents(spaceId, lifeline, (agentId) => {
        changed.add(agentId)
        bell.ring()
      })
      return async (to) => {
        while (!signal.aborted) {
          for (const agentId of changed) {
            changed.delete(agentId)
            await to.tell([{ of: null, event: { at: new Date(clock.now()), spaceId, agentId } }])
            if (signal.aborted) return
          }
          await bell.wait(FOREVER_MS, signal)
        }
      }
    })
}
