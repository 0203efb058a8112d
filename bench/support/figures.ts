/** One measured number, or one that it is to be read beside. */
export interface Figure {
  what: string
  value: number
  unit: string
  /** What the project promises; a reference has none. */
  bound?: { atMost: number } | { atLeast: number }
  /** Where a reference that was not measured in this run comes from. */
  source?: string
  /** What each of several runs in a row came to, in their order; `value` is that of the run that is published. */
  runs?: number[]
}

/** A question about speed or memory, answered by running the real server. */
export interface Benchmark {
  question: string
  /** It is given up after so long; 5 where nothing is said. */
  mostMinutes?: number
  /** It takes too long to be run with all others. */
  onlyByName?: boolean
  run(options: BenchmarkOptions): Promise<Figure[] | Result>
}

export interface BenchmarkOptions {
  /** A look while one works on something: less of everything, and nothing is written to bench/results. */
  quick: boolean
  /** Another checkout, built, to compare this one with; null where none was named. */
  against: string | null
}

/** Figures, and what else is made of them. */
export interface Result {
  figures: Figure[]
  /** Markdown that goes before them, where they are better read in tables. */
  tables?: string
  /** Goes into the JSON. */
  data?: unknown
  /** Markdown for docs/speed.md: see `writeSummary`. */
  summary?: string
}

/** Of several runs in a row the middle one by its first figure with a bound, whole, each figure beside what the others came to. */
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

/** The value below which `share` (0 to 1) of the values lie; NaN of none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

/** Whether the figure keeps its bound; null where it has none. */
export function holds({ value, bound }: Figure): boolean | null {
  if (bound === undefined) return null
  return 'atMost' in bound ? value <= bound.atMost : value >= bound.atLeast
}
