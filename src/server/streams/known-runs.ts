import type { ChangedRun } from '../../realtime/topics.ts'
import type { ToldRun } from '../../schema/shapes.ts'

/**
 * The active runs of one agent, as cached from database lookups and from signals, which arrive at most once,
 * late and in any order.
 */
export interface KnownRuns {
  /** Applies a signal about a run. @returns whether it changed anything */
  hear(run: ChangedRun): boolean
  /**
   * Call it before a lookup. It returns a function that applies the rows found, and returns whether they
   * changed anything.
   */
  beginLook(): (found: readonly ToldRun[]) => boolean
  /** The runs, newest first; the same array until a signal or lookup. Null before the first lookup has finished. */
  list(): readonly ToldRun[] | null
}

interface Known {
  /** `at`: the version at which the run was recorded. */
  runs: Map<string, { run: ToldRun; at: number }>
  /** Runs that have ended, and when that was recorded. Later signals about them are outdated. */
  over: Map<string, number>
}

const ENDS: readonly ToldRun['status'][] = ['COMPLETED', 'FAILED', 'CANCELED']
/** How long a signal may be in flight that was sent before the run ended. */
const OVER_KEPT_MS = 60_000

export function createKnownRuns(): KnownRuns {
  const agent: Known = { runs: new Map(), over: new Map() }
  let isWhole = false
  let listed: readonly ToldRun[] | null = null
  /** A logical clock that orders signals and lookups. */
  let moments = 0
  return {
    hear(run) {
      moments += 1
      listed = null
      return take(agent, heardOf(run, agent), moments)
    },
    beginLook() {
      moments += 1
      const began = moments
      return (found) => {
        isWhole = true
        listed = null
        return takeAll(agent, found, began)
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
 * Applies the rows of a lookup that began at version `began`: a run that was recorded before and is not among
 * them has ended.
 */
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
  // For equal states the database wins: a person may have been erased from the summary.
  const taken = found.filter((run) => {
    const before = runs.get(run.id)?.run
    if (before === undefined || ageOf(before) !== ageOf(run)) return take(agent, run, began)
    runs.set(run.id, { run, at: began })
    return before.triggerSummary !== run.triggerSummary
  })
  return gone.length > 0 || taken.length > 0
}

/** @returns whether it changed anything */
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

/**
 * Orders the states of a run: QUEUED comes first; each attempt begins with RUNNING and may continue with
 * WAITING_TOOL.
 */
const ageOf = ({ attempt, status }: ToldRun) => 2 * attempt + (status === 'WAITING_TOOL' ? 1 : 0)

/** A signal may carry a summary that was read before an erasure, so keep the summary that is cached already. */
const heardOf = ({ queuedAt, startedAt, ...run }: ChangedRun, { runs }: Known): ToldRun => ({
  ...run,
  triggerSummary: runs.get(run.id)?.run.triggerSummary ?? run.triggerSummary,
  queuedAt: new Date(queuedAt),
  startedAt: startedAt === null ? null : new Date(startedAt),
})
