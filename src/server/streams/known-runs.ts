import type { ChangedRun } from '../../realtime/topics.ts'
import type { ToldRun } from '../../schema/shapes.ts'

/** What is known of the runs of one agent that have not ended, from looks, and from what is told of them at most once, late and in any order. */
export interface KnownRuns {
  /** Takes in what is told of a run. @returns whether it is news */
  hear(run: ChangedRun): boolean
  /** To be called where a look begins; comes back with what takes in what it finds, which answers whether anything is another than was known. */
  beginLook(): (found: readonly ToldRun[]) => boolean
  /** Newest first, the same list until something is heard or looked up; null before the first look is over. */
  list(): readonly ToldRun[] | null
}

interface Known {
  /** `at`: how much was known when it was heard of. */
  runs: Map<string, { run: ToldRun; at: number }>
  /** Runs that are known to have ended, and since when: what is told of them later is older. */
  over: Map<string, number>
}

const ENDS: readonly ToldRun['status'][] = ['COMPLETED', 'FAILED', 'CANCELED']
/** So long may something be under way that was told before a run's end. */
const OVER_KEPT_MS = 60_000

export function createKnownRuns(): KnownRuns {
  const agent: Known = { runs: new Map(), over: new Map() }
  let isWhole = false
  let listed: readonly ToldRun[] | null = null
  /** Counts what is heard and looked up: of two of them, which came first. */
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
const heardOf = ({ queuedAt, startedAt, ...run }: ChangedRun, { runs }: Known): ToldRun => ({
  ...run,
  triggerSummary: runs.get(run.id)?.run.triggerSummary ?? run.triggerSummary,
  queuedAt: new Date(queuedAt),
  startedAt: startedAt === null ? null : new Date(startedAt),
})
