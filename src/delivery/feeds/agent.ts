// The feed of `agentActivity`: the active runs of the agents of a space.
import { spaceChannel } from '../../broker/topics.ts'
import type { Domain } from '../../graphql/domain.ts'
import type { AgentActivityEvent, Watcher } from '../../graphql/streams.ts'
import { createBell } from '../../lib/async.ts'
import { messageOf, NotFoundError } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import { type Delivery, type Feed, type Lifeline, openFeed } from '../feed.ts'
import type { Guards } from '../guards.ts'
import type { ActiveRuns } from './active-runs.ts'
import { createChannelSet } from './channel-set.ts'
import { SPACE_DELETED } from './space.ts'

const FOREVER_MS = 2 ** 31 - 1

/**
 * Delivers the activity of the agents of a space. First delivers an event for each agent, and then one for each
 * agent whose runs have changed. If an agent changes several times before the delivery, it gets one event.
 */
export function createAgentActivity(
  { signals, clock, logger }: Pick<Platform, 'signals' | 'clock' | 'logger'>,
  { guards, domain, activeRuns }: { guards: Guards; domain: Pick<Domain, 'members'>; activeRuns: ActiveRuns },
) {
  async function agentsOf(spaceId: string): Promise<string[]> {
    const members = (await domain.members.listMany([spaceId])).get(spaceId) ?? []
    return members.filter(({ kind }) => kind === 'AGENT').map(({ id }) => id)
  }

  /** Listens to a space and its agents. Calls `onChange` with each agent whose activity must be delivered. */
  async function watchAgents(spaceId: string, lifeline: Lifeline, onChange: (agentId: string) => void): Promise<void> {
    let agentIds: string[] = []
    const agentsNow = async () => {
      agentIds = await agentsOf(spaceId)
      return agentIds
    }
    const agents = createChannelSet(lifeline, agentsNow, (id) => activeRuns.watch(id, () => onChange(id)))
    const refresh = () =>
      agents.refresh(({ came }) => {
        for (const id of agentIds) if (came.includes(id)) onChange(id)
      })
    const refreshLater = () =>
      void refresh().catch((error) =>
        logger.warn({ spaceId, error: messageOf(error) }, 'could not refresh the agents of an activity subscription'),
      )

    const stop = await signals.subscribe(spaceChannel(spaceId), ({ type }) => {
      if (type === 'member-joined' || type === 'member-left') refreshLater()
      if (type === 'deleted') lifeline.fail(new NotFoundError(SPACE_DELETED))
    })
    lifeline.onEnd(stop)
    lifeline.onEnd(signals.onReconnect(refreshLater))
    await refresh()
  }

  return (
    { viewer }: Watcher,
    { spaceId, asksMore }: { spaceId: string; asksMore: boolean },
  ): Promise<Feed<AgentActivityEvent>> =>
    openFeed(async (lifeline) => {
      const { signal } = lifeline
      const changed = new Set<string>()
      const delivered = new Set<string>()
      const wakeUp = createBell()
      const runsOf = asksMore ? () => null : activeRuns.of
      await guards.viewer(viewer, lifeline)
      await guards.space(viewer, spaceId, lifeline)
      await watchAgents(spaceId, lifeline, (agentId) => {
        changed.add(agentId)
        wakeUp.ring()
      })
      function deliveryOf(agentId: string): Delivery<AgentActivityEvent> {
        const activeRuns = runsOf(agentId)
        const event = { at: new Date(clock.now()), spaceId, agentId, activeRuns }
        // All subscribers receive a change at the same time, so they share its answer. They receive the initial
        // state at different times.
        const shareKey = delivered.has(agentId) ? activeRuns : null
        delivered.add(agentId)
        return { shareKey, event }
      }

      return async (to) => {
        while (!signal.aborted) {
          for (const agentId of changed) {
            changed.delete(agentId)
            await to.deliver([deliveryOf(agentId)])
            if (signal.aborted) return
          }
          await wakeUp.wait(FOREVER_MS, signal)
        }
      }
    }, spaceId)
}
