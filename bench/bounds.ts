import { hasRedisBinary, measureCosts, OPERATIONS, type Operation } from './support/costs.ts'
import { type Benchmark, type BenchmarkOptions, type Figure, percentile } from './support/figures.ts'
import { memoryOfLargestResponses } from './support/largest-responses.ts'

const RUNS = 5
const QUICK_RUNS = 2
/** How much more CPU the limits may cost, beyond the variation between runs of the baseline. */
const MORE_AT_MOST = 1.03
const MORE_MEMORY_AT_MOST_MIB = 200
const AT_A_TIME = 4
const HERE = process.cwd()

export const bounds: Benchmark = {
  question: `What do the limits on responses cost: user CPU of an operation, here and in another checkout (\`--against\`), as the median of ${RUNS} interleaved runs of each on PostgreSQL and Redis; and memory, for ${AT_A_TIME} responses of maximum size at a time?`,
  mostMinutes: 25,
  onlyByName: true,
  async run(options) {
    if (!hasRedisBinary()) throw new Error('This benchmark needs the program redis-server.')
    const compared = options.against === null ? [] : await compare(options.against, options)
    const { idle, peak } = await memoryOfLargestResponses(AT_A_TIME)
    return [
      ...compared,
      { what: 'memory of the process, idle', value: idle, unit: 'MiB' },
      {
        what: `memory for ${AT_A_TIME} responses of maximum size at a time, more than idle`,
        value: peak - idle,
        unit: 'MiB',
        bound: { atMost: MORE_MEMORY_AT_MOST_MIB },
      },
    ]
  },
}

type Costs = Record<Operation, number>

/** Runs both checkouts in turn, so that other load on the machine affects both. */
async function compare(against: string, { quick }: BenchmarkOptions): Promise<Figure[]> {
  const [here, there]: [Costs[], Costs[]] = [[], []]
  for (let run = 0; run < (quick ? QUICK_RUNS : RUNS); run++) {
    const measureHere = async () => void here.push(await measureCosts(HERE, quick))
    const measureThere = async () => void there.push(await measureCosts(against, quick))
    for (const measure of run % 2 === 0 ? [measureThere, measureHere] : [measureHere, measureThere]) await measure()
  }
  return OPERATIONS.flatMap((operation) => figuresOf(operation, here, there))
}

function figuresOf(operation: Operation, here: readonly Costs[], there: readonly Costs[]): Figure[] {
  const [own, baseline] = [here, there].map((runs) => runs.map((costs) => costs[operation]))
  if (own === undefined || baseline === undefined) return []
  const [median, medianOfBaseline] = [percentile(own, 0.5), percentile(baseline, 0.5)]
  const spread = Math.max(...baseline) / medianOfBaseline
  return [
    { what: `${operation}: user CPU, baseline`, value: medianOfBaseline, unit: 'µs', runs: baseline },
    { what: `${operation}: user CPU, here`, value: median, unit: 'µs', runs: own },
    { what: `${operation}: the baseline's slowest run, of its median`, value: spread, unit: '×' },
    {
      what: `${operation}: here, of the baseline`,
      value: median / medianOfBaseline,
      unit: '×',
      bound: { atMost: MORE_AT_MOST * spread },
    },
  ]
}
