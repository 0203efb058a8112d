// npm run bench runs every benchmark, one after the other, and `npm run bench -- first-delta idle` only the named ones.
// `--quick` makes each run short and records no results. `--runs=3` runs each benchmark three times in a row. It records the
// middle run together with the results of the others.
// Some benchmarks run only if they are named. `SOAK_MINUTES=30 npm run bench -- soak` sets the duration. `npm run bench --
// search` first writes a million messages; `SEARCH_STACKS=embedded` restricts it to one stack. `npm run bench -- bounds
// --against ../other` compares CPU time with that checkout.
// `CONSOLE_MINUTES=30 npm run bench -- console` measures the console's memory for that time. `FANOUT_LOADS=10,1000/100
// FANOUT_SYSTEMS=ws-cork,parley-redis npm run bench -- fanout --quick` measures only these loads and systems.
import path from 'node:path'
import { attacked } from './attacked.ts'
import { bounds } from './bounds.ts'
import { consolePage } from './console.ts'
import { crowd } from './crowd.ts'
import { doors } from './doors.ts'
import { durableRuns } from './durable-runs.ts'
import { fanout } from './fanout.ts'
import { firstDelta } from './first-delta.ts'
import { forking } from './forking.ts'
import { held } from './held.ts'
import { idle } from './idle.ts'
import { reading } from './reading.ts'
import { replays } from './replays.ts'
import { retention } from './retention.ts'
import { roundTrips } from './round-trips.ts'
import { saving } from './saving.ts'
import { search } from './search.ts'
import { sendMessage } from './send-message.ts'
import { skip } from './skip.ts'
import { sleeping } from './sleeping.ts'
import { soak } from './soak.ts'
import { streams } from './streams.ts'
import { type Benchmark, type Figure, middleOf, type Result } from './support/figures.ts'
import { report } from './support/report.ts'
import { uploads } from './uploads.ts'
import { usage } from './usage.ts'
import { waits } from './waits.ts'

const BENCHMARKS: Record<string, Benchmark> = {
  'first-delta': firstDelta,
  streams,
  fanout,
  crowd,
  held,
  'durable-runs': durableRuns,
  'round-trips': roundTrips,
  'send-message': sendMessage,
  waits,
  skip,
  saving,
  reading,
  usage,
  sleeping,
  retention,
  replays,
  forking,
  attacked,
  bounds,
  doors,
  search,
  uploads,
  idle,
  console: consolePage,
  soak,
}
const MOST_MINUTES = 5

const given = process.argv.slice(2)
const [, against] = given.includes('--against') ? given.splice(given.indexOf('--against'), 2) : []
const options = { quick: given.includes('--quick'), against: against === undefined ? null : path.resolve(against) }
const runs = Number(given.find((argument) => argument.startsWith('--runs='))?.slice('--runs='.length) ?? 1)
const usual = Object.keys(BENCHMARKS).filter((name) => BENCHMARKS[name]?.onlyByName !== true)
const named = given.filter((argument) => !argument.startsWith('--'))
for (const name of named.length > 0 ? named : usual) {
  const benchmark = BENCHMARKS[name]
  if (benchmark === undefined) {
    console.error(`there is no benchmark ${name}; the benchmarks are: ${Object.keys(BENCHMARKS).join(', ')}`)
    process.exit(1)
  }
  const { question, mostMinutes = MOST_MINUTES } = benchmark
  const results: (Figure[] | Result)[] = []
  for (let run = 0; run < runs; run++) {
    const tooLong = setTimeout(() => {
      console.error(`${name} did not end within ${mostMinutes} minutes`)
      process.exit(1)
    }, mostMinutes * 60_000)
    results.push(await benchmark.run(options))
    clearTimeout(tooLong)
  }
  await report(name, question, middleOf(results), options)
}
process.exit(0)
