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
 * The active runs of watched agents. They are read once and then updated by signals, so that neither many
 * subscribers nor many changes cause database queries. A periodic recheck finds changes whose signal was
 * lost.
 */
export interface ActiveRuns {
  /**
   * Resolves once the agent's runs are cached. Calls `onChange` at each change. Returns a function that stops
   * watching.
   */
  watch(agentId: string, onChange: () => void): Promise<() => void>
  /**
   * The active runs, newest first; the same array until a change. Null if they are not cached yet, or nobody
   * watches the agent.
   */
  of(agentId: string): readonly ToldRun[] | null
}

export function createActiveRuns(
  { signals, logger }: Pick<Platform, 'signals' | 'logger'>,
  { domain, secondLook }: { domain: Pick<Domain, 'runs'>; secondLook: Pick<SecondLook, 'each'> },
): ActiveRuns {
  const known = new Map<string, KnownRuns>()
  const rows = rowsOf(domain)

  /**
   * Reads the runs of an agent. After a failure the periodic recheck retries; until the first success,
   * subscribers query for themselves.
   */
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

/** Batches the lookups of one tick. */
function rowsOf({ runs }: Pick<Domain, 'runs'>) {
  return new DataLoader(
    async (agentIds: readonly string[]) => {
      const found = await runs.toldOf([...new Set(agentIds)])
      return agentIds.map((id) => found.get(id) ?? [])
    },
    { cache: false },
  )
}
