import DataLoader from 'dataloader'
import { createShared } from '../../lib/async.ts'
import { messageOf } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import { agentChannel } from '../../realtime/topics.ts'
import type { Domain } from '../../schema/domain.ts'
import type { ToldRun } from '../../schema/shapes.ts'
import { createKnownRuns, type KnownRuns } from './known-runs.ts'
import type { SecondLook } from './second-look.ts'
import { createSharedWatch } from './shared-watch.ts'

/**
 * The runs of watched agents that have not ended: read once, then kept by what is told of each change, so that however many watch,
 * and however often something changes, nobody looks. What was not told, or told to nobody, is found at a second look.
 */
export interface ActiveRuns {
  /** Resolves once the agent's runs are known; calls at each change. Comes back with the way to leave. */
  watch(agentId: string, onChange: () => void): Promise<() => void>
  /** Newest first, the same list until a change is told; null where they are not known yet, and of an agent that nobody watches. */
  of(agentId: string): readonly ToldRun[] | null
}

export function createActiveRuns(
  { signals, logger }: Pick<Platform, 'signals' | 'logger'>,
  { domain, secondLook }: { domain: Pick<Domain, 'runs'>; secondLook: Pick<SecondLook, 'each'> },
): ActiveRuns {
  const known = new Map<string, KnownRuns>()
  const rows = rowsOf(domain)

  /** What could not be looked up is at the second look; until the first, those who are told look for themselves. */
  async function look(agentId: string, agent: KnownRuns): Promise<boolean> {
    const takeIn = agent.beginLook()
    try {
      return takeIn(await rows.load(agentId))
    } catch (error) {
      logger.warn({ agentId, error: messageOf(error) }, 'could not look up the active runs of an agent')
      return false
    }
  }

  const watches = createSharedWatch<'changed'>(async (agentId, emit) => {
    const agent = createKnownRuns()
    const lookNext = createShared(() => look(agentId, agent))
    const lookAgain = async (always: boolean) => {
      if ((await lookNext()) || always) emit('changed')
    }
    const leaving = [
      await signals.subscribe(agentChannel(agentId), (signal) => {
        if (signal.type !== 'run-changed') return
        if (signal.run === undefined) void lookAgain(true)
        else if (agent.hear(signal.run)) emit('changed')
      }),
      signals.onReconnect(() => void lookAgain(true)),
      secondLook.each(() => void lookAgain(false)),
      () => known.delete(agentId),
    ]
    known.set(agentId, agent)
    await lookNext()
    return () => {
      for (const leave of leaving) leave()
    }
  })

  return {
    watch: (agentId, onChange) => watches.join(agentId, onChange),
    of: (agentId) => known.get(agentId)?.list() ?? null,
  }
}

/** All who look at one moment look together. */
function rowsOf({ runs }: Pick<Domain, 'runs'>) {
  return new DataLoader(
    async (agentIds: readonly string[]) => {
      const found = await runs.toldOf([...new Set(agentIds)])
      return agentIds.map((id) => found.get(id) ?? [])
    },
    { cache: false },
  )
}
