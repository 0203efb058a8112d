import DataLoader from 'dataloader'
import { messageOf } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import { agentChannel, type RunNews } from '../../realtime/topics.ts'
import type { App } from '../../schema/app.ts'
import type { ToldRun } from '../../schema/shapes.ts'
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
  /** Runs that are known to have ended, and since when: what is told of them later is older. */
  over: Map<string, number>
  /** Whether it was looked up: before, not all is known. */
  isWhole: boolean
}

const ENDS: readonly ToldRun['status'][] = ['COMPLETED', 'FAILED', 'CANCELED']
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
      const found = await app.runs.toldOf([...new Set(agentIds)])
      return agentIds.map((id) => found.get(id) ?? [])
    },
    { cache: false },
  )

  /** @returns whether anything is another than was known */
  async function look(agentId: string, agent: Known): Promise<boolean> {
    moments += 1
    const began = moments
    const found = await rows.load(agentId)
    agent.isWhole = true
    return takeAll(agent, found, began)
  }

  async function open(agentId: string, emit: (change: 'changed') => void): Promise<() => void> {
    const agent: Known = { runs: new Map(), over: new Map(), isWhole: false }
    /** What could not be looked up is at the second look; until the first, those who are told look for themselves. */
    const lookNext = joined(() =>
      look(agentId, agent).catch((error) => {
        logger.warn({ agentId, error: messageOf(error) }, 'what an agent does could not be looked up')
        return false
      }),
    )
    const lookAgain = async (always: boolean) => {
      if ((await lookNext()) || always) emit('changed')
    }
    const hear = (run: RunNews) => {
      moments += 1
      if (take(agent, heardOf(run, agent), moments)) emit('changed')
    }
    const leaving = [
      await signals.subscribe(agentChannel(agentId), (signal) => {
        if (signal.type !== 'run-changed') return
        if (signal.run === undefined) void lookAgain(true)
        else hear(signal.run)
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
  }

  const watches = createSharedWatch<'changed'>(open)
  return {
    watch: (agentId, onChange) => watches.join(agentId, onChange),
    of(agentId) {
      const agent = known.get(agentId)
      if (!agent?.isWhole) return null
      return Array.from(agent.runs.values(), ({ run }) => run).sort(byNewest)
    },
  }
}

const byNewest = (a: ToldRun, b: ToldRun) => (a.id < b.id ? 1 : -1)

/** Does `work`, which never fails, again for whoever asks while it is under way: once for all of them, when it is over. */
function joined<T>(work: () => Promise<T>): () => Promise<T> {
  let underWay: Promise<unknown> = Promise.resolve()
  let next: Promise<T> | null = null
  return () => {
    next ??= underWay.then(() => {
      next = null
      const begun = work()
      underWay = begun
      return begun
    })
    return next
  }
}

/** What a look found, which had begun at a moment: what was heard of before and is not among it has ended. */
function takeAll(agent: Known, found: readonly ToldRun[], began: number): boolean {
  const { runs, over } = agent
  const past = performance.now() - OVER_KEPT_MS
  for (const [id, since] of over) if (since < past) over.delete(id)
  const ids = new Set(found.map(({ id }) => id))
  const gone = [...runs].filter(([id, { at }]) => !ids.has(id) && at < began)
  for (const [id] of gone) {
    runs.delete(id)
    over.set(id, performance.now())
  }
  // Of the same age, what is in the database counts: somebody may have been erased from it.
  const taken = found.filter((run) => {
    const before = runs.get(run.id)?.run
    if (before === undefined || ageOf(before) !== ageOf(run)) return take(agent, run, began)
    runs.set(run.id, { run, at: began })
    return before.triggerSummary !== run.triggerSummary
  })
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

/** Who tells of a run may have read its summary before somebody was erased from it: what was known of it first, or looked up since, stays. */
const heardOf = ({ queuedAt, startedAt, ...run }: RunNews, { runs }: Known): ToldRun => ({
  ...run,
  triggerSummary: runs.get(run.id)?.run.triggerSummary ?? run.triggerSummary,
  queuedAt: new Date(queuedAt),
  startedAt: startedAt === null ? null : new Date(startedAt),
})
