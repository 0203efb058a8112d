import { writeChart } from './support/fanout-chart.ts'
import { startFanoutClients } from './support/fanout-clients.ts'
import { LONGEST_P99_MS, type Measured, measure, type Pace, runWindow, type Stage } from './support/fanout-measure.ts'
import { startPublisher } from './support/fanout-publisher.ts'
import { type Load, type Payload, type SystemName, startFanoutServer } from './support/fanout-server.ts'
import { nameOf, SYSTEMS, summaryOf, tablesOf } from './support/fanout-tables.ts'
import { type Benchmark, type BenchmarkOptions, type Figure, percentile } from './support/figures.ts'

const SPACES = 100
const PACE: Pace = { windowMs: 1000, pacedMs: 5000, refinements: 2 }
const QUICK: Pace = { windowMs: 700, pacedMs: 2000, refinements: 1 }
const load = (viewers: number, spaces = 1, payload: Payload = 'deltas'): Load => ({ viewers, spaces, payload })
const LOADS = [10, 100, 500, 1000, 5000].map((viewers) => load(viewers)).concat(load(1000, SPACES))
/** The loads of a quick run. `FANOUT_LOADS=10,1000/100` means 10 viewers of one space, and 1,000 viewers of 100 spaces. */
const QUICK_LOADS = (process.env['FANOUT_LOADS'] ?? '100,1000').split(',').map((text) => {
  const [viewers = 0, spaces] = text.split('/').map(Number)
  return load(viewers, spaces)
})
const QUICK_SYSTEMS = (process.env['FANOUT_SYSTEMS'] ?? 'ws,ws-cork,parley-redis,parley-embedded').split(',')

/** The time until every viewer has an event that needs lookups. */
const LOOKED_UP: Load[] = [load(450, 1, 'toolCalls'), load(450, 1, 'unread')]
const LOOKED_UP_EVENTS_A_SECOND = 2
const LOOKED_UP_MS = 10_000
const QUICK_LOOKED_UP_MS = 4000

async function measureSystem(system: SystemName, { quick }: BenchmarkOptions) {
  const stage: Stage = {
    server: await startFanoutServer(system, SPACES),
    publisher: startPublisher(),
    clients: startFanoutClients(),
  }
  const all: Measured[] = []
  const figures: Figure[] = []
  try {
    for (const one of quick ? QUICK_LOADS : LOADS) {
      all.push(await measure(stage, system, one, quick ? QUICK : PACE))
      console.error(JSON.stringify(all.at(-1)))
    }
    if (system.startsWith('parley')) {
      for (const one of LOOKED_UP) figures.push(...(await lookUp(stage, system, one, quick)))
    }
  } finally {
    stage.publisher.stop()
    stage.clients.stop()
    await stage.server.stop()
  }
  return { all, figures }
}

/** Measures the time until the last viewer has received an event, one event at a time. */
async function lookUp(stage: Stage, system: SystemName, one: Load, quick: boolean): Promise<Figure[]> {
  await stage.clients.open(await stage.server.viewers(one), one.viewers)
  await runWindow(stage, one, LOOKED_UP_EVENTS_A_SECOND, 1000)
  const ms = quick ? QUICK_LOOKED_UP_MS : LOOKED_UP_MS
  const { delays } = await runWindow(stage, one, LOOKED_UP_EVENTS_A_SECOND, ms)
  await stage.clients.close()
  const events = delays.length / one.viewers
  const slowest = Array.from({ length: events }, (_, n) => Math.max(...delays.filter((_, at) => at % events === n)))
  const what = `${SYSTEMS[system]}, ${nameOf(one)}: until everybody has an event`
  return [
    { what: `${what}, the middle of ${events}`, value: percentile(slowest, 0.5), unit: 'ms', bound: { atMost: 50 } },
    { what: `${what}, the slowest`, value: Math.max(...slowest), unit: 'ms' },
  ]
}

/** The limits that the project promises, for each number of viewers, next to the values of this run. */
function promisesOf(all: readonly Measured[]): Figure[] {
  const parley = all.filter(({ system }) => system === 'parley-redis')
  return parley.flatMap((one) => {
    const beside = (system: SystemName) => all.find((other) => other.system === system && nameOf(other) === nameOf(one))
    const [plain, kept, corked] = [beside('ws'), beside('ws-log'), beside('ws-cork')]
    if (plain === undefined || corked === undefined) return []
    const name = `Parley over Redis, ${nameOf(one)}`
    const ratio = (what: string, value: number, bound?: Figure['bound']): Figure => ({
      what: `${name}: ${what}`,
      value,
      unit: '×',
      ...(bound === undefined ? {} : { bound }),
    })
    return [
      ratio('messages over corked `ws`', one.messagesASecond / corked.messagesASecond, { atLeast: 0.5 }),
      ratio('messages over plain `ws`', one.messagesASecond / plain.messagesASecond, { atLeast: 1 }),
      ratio('CPU of a message over corked `ws`', one.microsecondsOfCpu / corked.microsecondsOfCpu, { atMost: 2 }),
      ratio('p50 at 20 events/s over plain `ws`', one.p50 / plain.p50, { atMost: 1.25 }),
      ...(kept === undefined
        ? []
        : [ratio('p50 at 20 events/s over plain `ws`, of events kept in Redis', one.p50 / kept.p50)]),
      ...(one.viewers < 1000
        ? []
        : [
            {
              what: `${name}: heap of a subscription over a bare socket`,
              value: one.kibibytesOfSubscription - plain.kibibytesOfSubscription,
              unit: 'KiB',
              bound: { atMost: 40 },
            },
          ]),
    ]
  })
}

export const fanout: Benchmark = {
  question: `How many messages per second reach subscribers, each with its own operation, with p99 within ${LONGEST_P99_MS} ms? The rate is raised until p99 is longer. Publisher, server and subscribers each run in a separate process.`,
  mostMinutes: 45,
  async run(options) {
    const systems = (options.quick ? QUICK_SYSTEMS : Object.keys(SYSTEMS)) as SystemName[]
    const all: Measured[] = []
    const figures: Figure[] = []
    for (const system of systems) {
      const measured = await measureSystem(system, options)
      all.push(...measured.all)
      figures.push(...measured.figures)
    }
    if (!options.quick) await writeChart(all)
    return { figures: [...promisesOf(all), ...figures], tables: tablesOf(all), data: all, summary: summaryOf(all) }
  },
}
