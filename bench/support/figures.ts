/** One measured number, or a reference to compare it with. */
export interface Figure {
  what: string
  value: number
  unit: string
  /** The limit that the project promises; a reference has none. */
  bound?: { atMost: number } | { atLeast: number }
  /** The source of a reference that was not measured in this run. */
  source?: string
  /** The results of several runs in a row, in their order. `value` is the result of the published run. */
  runs?: number[]
}

/** A question about speed or memory, answered by a benchmark of the real server. */
export interface Benchmark {
  question: string
  /** The timeout; 5 minutes by default. */
  mostMinutes?: number
  /** Whether the benchmark must be requested by name, because it is too slow to run with all others. */
  onlyByName?: boolean
  run(options: BenchmarkOptions): Promise<Figure[] | Result>
}

export interface BenchmarkOptions {
  /** Whether this is a quick run, for development: loads are smaller, and nothing is written to bench/results. */
  quick: boolean
  /** Another built checkout to compare with, or null. */
  against: string | null
}

/** The results of a benchmark: numbers, and how to present them. */
export interface Result {
  figures: Figure[]
  /** Markdown before the numbers, if tables present them better. */
  tables?: string
  /** Extra fields of the JSON. */
  data?: unknown
  /** Markdown for docs/speed.md: see `writeSummary`. */
  summary?: string
}

/**
 * Returns the complete results of the middle run, by the first number with a limit. Each number also lists the results of the
 * other runs.
 */
export function middleOf(results: (Figure[] | Result)[]): Result {
  const runs = results.map((result): Result => (Array.isArray(result) ? { figures: result } : result))
  const judged = Math.max(0, runs[0]?.figures.findIndex(({ bound }) => bound !== undefined) ?? 0)
  const inOrder = runs.toSorted((a, b) => (a.figures[judged]?.value ?? 0) - (b.figures[judged]?.value ?? 0))
  const middle = inOrder[Math.floor(inOrder.length / 2)]
  if (middle === undefined) throw new Error('there was no run')
  if (runs.length === 1) return middle
  const figures = middle.figures.map((figure, index) =>
    figure.source === undefined
      ? { ...figure, runs: runs.map((run) => run.figures[index]?.value ?? Number.NaN) }
      : figure,
  )
  return { ...middle, figures }
}

/** Returns the value below which `share` (0 to 1) of the values lie; NaN if there are no values. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

/** Returns whether the number is within its limit; null if it has no limit. */
export function holds({ value, bound }: Figure): boolean | null {
  if (bound === undefined) return null
  return 'atMost' in bound ? value <= bound.atMost : value >= bound.atLeast
}
