// Optimization: caches the active runs of watched agents and updates them from signals. To remove this stage,
// return null from `of`; the database is then read for each event. Gain: 7.8 instead of 12.5 statements for a run
// that one client watches, and 70 instead of 60 runs a second (docs/decisions/delivery-stages.md). The limit of
// `bench/durable-runs` needs this stage.
import DataLoader from 'dataloader'
import { agentChannel, type ChangedRun } from '../../broker/topics.ts'
import type { Domain } from '../../graphql/domain.ts'
import type { ToldRun } from '../../graphql/shapes.ts'
import { createShared } from '../../lib/async.ts'
import { messageOf } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import { isEndedRun } from '../../rules/statuses.ts'
import type { PeriodicRecheck } from '../recheck.ts'
import { createSharedWatch } from '../shared-watch.ts'

/**
 * The active runs of watched agents. They are read once and then updated from signals, so that the number of
 * queries does not grow with the number of subscribers or changes. A periodic recheck detects changes whose signals
 * were lost.
 */
export interface ActiveRuns {
  /**
   * Watches an agent. Resolves once the agent's runs are cached, and returns a function that stops watching. Calls
   * `onChange` after each change.
   */
  watch(agentId: string, onChange: () => void): Promise<() => void>
  /**
   * Returns the active runs, newest first. The array stays the same until a run changes. Returns null if the runs
   * are not cached yet or nobody watches the agent.
   */
  of(agentId: string): readonly ToldRun[] | null
}

export function createActiveRuns(
  { signals, logger }: Pick<Platform, 'signals' | 'logger'>,
  { domain, recheck }: { domain: Pick<Domain, 'runs'>; recheck: Pick<PeriodicRecheck, 'onTick'> },
): ActiveRuns {
  const watched = new Map<string, KnownRuns>()
  const rows = rowsOf(domain)

  /**
   * Reads the runs of an agent. If this fails, the periodic recheck reads them again. Until a read has succeeded,
   * the database is read for each event of a subscriber.
   */
  async function lookUp(agentId: string, agent: KnownRuns): Promise<boolean> {
    const takeIn = agent.beginLookup()
    try {
      return takeIn(await rows.load(agentId))
    } catch (error) {
      logger.warn({ agentId, error: messageOf(error) }, 'could not look up the active runs of an agent')
      return false
    }
  }

  const watches = createSharedWatch<'changed'>(async (agentId, emit) => {
    const agent = createKnownRuns()
    const lookUpNext = createShared(() => lookUp(agentId, agent))
    const lookUpAgain = async (always: boolean) => {
      if ((await lookUpNext()) || always) emit('changed')
    }
    const leaving = [
      await signals.subscribe(agentChannel(agentId), (signal) => {
        if (signal.type !== 'run-changed') return
        if (signal.run === undefined) void lookUpAgain(true)
        else if (agent.applySignal(signal.run)) emit('changed')
      }),
      signals.onReconnect(() => void lookUpAgain(true)),
      recheck.onTick(() => void lookUpAgain(false)),
      () => watched.delete(agentId),
    ]
    watched.set(agentId, agent)
    await lookUpNext()
    return () => {
      for (const leave of leaving) leave()
    }
  })

  return {
    watch: (agentId, onChange) => watches.join(agentId, onChange),
    of: (agentId) => watched.get(agentId)?.list() ?? null,
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

/**
 * The active runs of one agent, built from database lookups and from signals. A signal arrives at most once,
 * possibly late and in any order.
 */
export interface KnownRuns {
  /** Applies a signal about a run. Returns whether the list of runs changed. */
  applySignal(run: ChangedRun): boolean
  /**
   * Must be called before a lookup. Returns a function that applies the rows of the lookup, and returns whether the
   * list of runs changed.
   */
  beginLookup(): (found: readonly ToldRun[]) => boolean
  /**
   * Returns the runs, newest first. The array stays the same until the next signal or lookup. Returns null before
   * the first lookup has finished.
   */
  list(): readonly ToldRun[] | null
}

interface Known {
  /** The runs by id. `at`: the value of the logical clock when the run was recorded. */
  runs: Map<string, { run: ToldRun; at: number }>
  /** The runs that have ended, and the times at which their end was recorded. Later signals about them are outdated. */
  over: Map<string, number>
}

/** The maximum time for which a signal that was sent before the end of a run may be in flight. */
const OVER_KEPT_MS = 60_000

export function createKnownRuns(): KnownRuns {
  const agent: Known = { runs: new Map(), over: new Map() }
  let isWhole = false
  let listed: readonly ToldRun[] | null = null
  /** A logical clock that orders signals and lookups. */
  let version = 0
  return {
    applySignal(run) {
      version += 1
      listed = null
      return applyRun(agent, runOfSignal(run, agent), version)
    },
    beginLookup() {
      version += 1
      const began = version
      return (found) => {
        isWhole = true
        listed = null
        return applyRows(agent, found, began)
      }
    },
    list() {
      if (isWhole) listed ??= Array.from(agent.runs.values(), ({ run }) => run).sort(byNewest)
      return listed
    },
  }
}

const byNewest = (a: ToldRun, b: ToldRun) => (a.id < b.id ? 1 : -1)

/**
 * Applies the rows of a lookup that began at `began` on the logical clock. A run that was recorded before `began`
 * but is not among the rows has ended.
 */
function applyRows(agent: Known, found: readonly ToldRun[], began: number): boolean {
  const { runs, over } = agent
  const past = performance.now() - OVER_KEPT_MS
  for (const [id, since] of over) if (since < past) over.delete(id)
  const ids = new Set(found.map(({ id }) => id))
  const gone = [...runs].filter(([id, { at }]) => !ids.has(id) && at < began)
  for (const [id] of gone) {
    runs.delete(id)
    over.set(id, performance.now())
  }
  // If the states are equal, the row is used, because a person may have been erased from its summary.
  const taken = found.filter((run) => {
    const before = runs.get(run.id)?.run
    if (before === undefined || ageOf(before) !== ageOf(run)) return applyRun(agent, run, began)
    runs.set(run.id, { run, at: began })
    return before.triggerSummary !== run.triggerSummary
  })
  return gone.length > 0 || taken.length > 0
}

/** Records the state of a run, unless a newer state is recorded. Returns whether the list of runs changed. */
function applyRun({ runs, over }: Known, run: ToldRun, at: number): boolean {
  if (over.has(run.id)) return false
  if (isEndedRun(run.status)) {
    over.set(run.id, performance.now())
    return runs.delete(run.id)
  }
  const before = runs.get(run.id)
  if (before !== undefined && ageOf(before.run) >= ageOf(run)) return false
  runs.set(run.id, { run, at })
  return true
}

/**
 * Returns a number that orders the states of a run. QUEUED comes first. Each attempt begins with RUNNING and may
 * continue with WAITING_TOOL.
 */
const ageOf = ({ attempt, status }: ToldRun) => 2 * attempt + (status === 'WAITING_TOOL' ? 1 : 0)

/** Keeps the cached summary, because the summary in the signal may have been read before an erasure. */
const runOfSignal = ({ queuedAt, startedAt, ...run }: ChangedRun, { runs }: Known): ToldRun => ({
  ...run,
  triggerSummary: runs.get(run.id)?.run.triggerSummary ?? run.triggerSummary,
  queuedAt: new Date(queuedAt),
  startedAt: startedAt === null ? null : new Date(startedAt),
})
