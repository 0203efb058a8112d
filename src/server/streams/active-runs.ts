import DataLoader from 'dataloader'
import { messageOf } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import { agentChannel, type RunNews } from '../../realtime/topics.ts'
import type { App } from '../../schema/app.ts'
import type { Run } from '../../schema/shapes.ts'
import type { ToldRun } from '../../schema/streams.ts'
import type { SecondLook } from './second-look.ts'
import { createSharedWatch } from './shared-watch.ts'

/**
 * The runs of watched agents that have not ended: read once, then kept by what is told of each change, so that however many watch,
 * and however often something changes, nobody looks. What was not told, or told to nobody, is found at a second look.
 */
export interface ActiveRuns {
  /** Resolves once the agent's runs are known; calls at each change. Comes back with the way to leave. */
  watch(agentId: string, onChange: () => void): Promise<() => void>
  /** Newest first; null where they are not known yet, and of an agent that nobody watches. */
  of(agentId: string): readonly ToldRun[] | null
}

interface Kept {
  run: ToldRun
  /** How much was known when it was heard of: see `moments`. */
  at: number
}

interface Known {
  runs: Map<string, Kept>
  /** Runs of which the end was heard, and when: what is told of them later is older. */
  over: Map<string, number>
  /** The beginning of the last look that is over; 0 before the first. */
  lookedAt: number
}

const ENDS: readonly Run['status'][] = ['COMPLETED', 'FAILED', 'CANCELED']
/** So long may something be under way that was told before a run's end. */
const OVER_KEPT_MS = 60_000

export function createActiveRuns(
  { signals, logger }: Pick<Platform, 'signals' | 'logger'>,
  { app, secondLook }: { app: Pick<App, 'runs'>; secondLook: Pick<SecondLook, 'each'> },
): ActiveRuns {
  const known = new Map<string, Known>()
  /** Counts what is heard and looked up: of two of them, which came first. */
  let moments = 0

  /** All who look at one moment look together. */
  const rows = new DataLoader(
    async (agentIds: readonly string[]) => {
      const found = await app.runs.activeOf([...new Set(agentIds)])
      return agentIds.map((id) => found.get(id) ?? [])
    },
    { cache: false },
  )

  /** @returns whether anything is another than was known */
  async function look(agentId: string, agent: Known): Promise<boolean> {
    moments += 1
    const began = moments
    const found = await rows.load(agentId)
    if (began < agent.lookedAt) return false
    agent.lookedAt = began
    return takeAll(agent, found, began)
  }

  async function open(agentId: string, emit: (change: 'changed') => void): Promise<() => void> {
    const agent: Known = { runs: new Map(), over: new Map(), lookedAt: 0 }
    const lookAgain = (always: boolean) =>
      void look(agentId, agent)
        .then((isOther) => {
          if (isOther || always) emit('changed')
        })
        .catch((error) =>
          logger.warn({ agentId, error: messageOf(error) }, 'what an agent does could not be looked up'),
        )
    const hear = (run: RunNews) => {
      moments += 1
      if (take(agent, toldOf(run), moments)) emit('changed')
    }
    const leaving = [
      await signals.subscribe(agentChannel(agentId), (signal) => {
        if (signal.type !== 'run-changed') return
        if (signal.run === undefined) lookAgain(true)
        else hear(signal.run)
      }),
      signals.onReconnect(() => lookAgain(true)),
      secondLook.each(() => lookAgain(false)),
      () => known.delete(agentId),
    ]
    const leave = () => {
      for (const one of leaving) one()
    }
    known.set(agentId, agent)
    try {
      await look(agentId, agent)
      return leave
    } catch (error) {
      leave()
      throw error
    }
  }

  const watches = createSharedWatch<'changed'>(open)
  return {
    watch: (agentId, onChange) => watches.join(agentId, onChange),
    of(agentId) {
      const agent = known.get(agentId)
      if (agent === undefined || agent.lookedAt === 0) return null
      return Array.from(agent.runs.values(), ({ run }) => run).sort(byNewest)
    },
  }
}

const byNewest = (a: ToldRun, b: ToldRun) => (a.id < b.id ? 1 : -1)

/** What a look found, which had begun at a moment: what was heard of before and is not among it has ended. */
function takeAll(agent: Known, found: readonly Run[], began: number): boolean {
  const past = performance.now() - OVER_KEPT_MS
  for (const [id, heardAt] of agent.over) if (heardAt < past) agent.over.delete(id)
  const ids = new Set(found.map(({ id }) => id))
  const gone = [...agent.runs].filter(([id, { at }]) => !ids.has(id) && at < began)
  for (const [id] of gone) agent.runs.delete(id)
  const taken = found.filter((run) => take(agent, run, began))
  return gone.length > 0 || taken.length > 0
}

/** @returns whether it is news */
function take({ runs, over }: Known, run: ToldRun, at: number): boolean {
  if (over.has(run.id)) return false
  if (ENDS.includes(run.status)) {
    over.set(run.id, performance.now())
    return runs.delete(run.id)
  }
  const before = runs.get(run.id)
  if (before !== undefined && ageOf(before.run) >= ageOf(run)) return false
  runs.set(run.id, { run, at })
  return true
}

/** Later statuses of a run have greater ones: QUEUED comes first, each claim begins with RUNNING, and may come to WAITING_TOOL. */
const ageOf = ({ attempt, status }: ToldRun) => 2 * attempt + (status === 'WAITING_TOOL' ? 1 : 0)

const toldOf = ({ queuedAt, startedAt, ...run }: RunNews): ToldRun => ({
  ...run,
  queuedAt: new Date(queuedAt),
  startedAt: startedAt === null ? null : new Date(startedAt),
})
