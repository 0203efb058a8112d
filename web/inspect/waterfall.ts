import { wordsOfName } from '../decide/property-titles.ts'

/** The times of a run, as ISO dates; null if it has not ended. */
export interface TimedRun {
  queuedAt: string
  startedAt: string | null
  finishedAt: string | null
}

export interface TimedStep {
  /** 0-based. */
  index: number
  model: string
  startedAt: string
  durationMs: number
  msToFirstChunk: number | null
}

export interface TimedCall {
  id: string
  toolName: string
  createdAt: string
  settledAt: string | null
}

/** A row of the chart. Times are milliseconds after the run was queued. */
export interface Row {
  key: string
  kind: 'queue' | 'run' | 'step' | 'call'
  label: string
  from: number
  to: number
  /** Whether the row is still in progress. */
  isOpen: boolean
  /** When the model's first output arrived. */
  firstOutput: number | null
  /** The step on the page to which the row belongs; 0-based. */
  step: number | null
}

export interface Waterfall {
  rows: Row[]
  /** The number of milliseconds that the chart covers; at least 1. */
  totalMs: number
}

/**
 * Returns the rows in the order in which they began. If there are no steps, whose times only admins may read, the run itself is
 * a row. Negative times, from a clock that was set back, are raised to 0.
 */
export function waterfallOf(
  run: TimedRun,
  { steps, calls, now }: { steps: readonly TimedStep[]; calls: readonly TimedCall[]; now: number },
): Waterfall {
  const origin = Date.parse(run.queuedAt)
  const after = (at: string) => Math.max(0, Date.parse(at) - origin)
  const end = run.finishedAt === null ? Math.max(0, now - origin) : after(run.finishedAt)
  const begun = run.startedAt === null ? null : after(run.startedAt)
  const base = { isOpen: false, firstOutput: null, step: null }
  const isOver = run.finishedAt !== null
  const rows: Row[] = [
    {
      ...base,
      key: 'queue',
      kind: 'queue',
      label: 'Queued',
      from: 0,
      to: begun ?? end,
      isOpen: begun === null && !isOver,
    },
  ]
  if (begun !== null && steps.length === 0) {
    rows.push({
      ...base,
      key: 'run',
      kind: 'run',
      label: 'Run',
      from: begun,
      to: Math.max(begun, end),
      isOpen: !isOver,
    })
  }
  for (const { index, model, startedAt, durationMs, msToFirstChunk } of steps) {
    const from = after(startedAt)
    rows.push({
      ...base,
      key: `step ${index}`,
      kind: 'step',
      label: `Step ${index + 1}: ${model}`,
      from,
      to: from + durationMs,
      firstOutput: msToFirstChunk === null ? null : from + msToFirstChunk,
      step: index,
    })
  }
  for (const { id, toolName, createdAt, settledAt } of calls) {
    const from = after(createdAt)
    const to = settledAt === null ? Math.max(from, end) : Math.max(from, after(settledAt))
    rows.push({
      ...base,
      key: id,
      kind: 'call',
      label: wordsOfName(toolName),
      from,
      to,
      isOpen: settledAt === null && !isOver,
    })
  }
  // A step comes before its calls, even within the same millisecond.
  const order = { queue: 0, run: 1, step: 2, call: 3 }
  rows.sort((one, other) => one.from - other.from || order[one.kind] - order[other.kind])
  return { rows, totalMs: Math.max(1, end, ...rows.map(({ to }) => to)) }
}
