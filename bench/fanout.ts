import { writeChart } from './support/fanout-chart.ts'
import { startFanoutClients } from './support/fanout-clients.ts'
import { type FanoutServer, type Measured, type SystemName, startFanoutServer } from './support/fanout-server.ts'
import { type Benchmark, type Figure, percentile } from './support/figures.ts'
import { now } from './support/model.ts'

const SYSTEMS: Record<SystemName, string> = {
  ws: 'plain `ws`',
  yoga: 'yoga + graphql-ws + RedisPubSub',
  'parley-embedded': 'Parley, embedded',
  'parley-redis': 'Parley over Redis',
}
const SUBSCRIBERS = [100, 500, 1000]
/** Messages of one measurement of throughput, whatever the number of subscribers. */
const MESSAGES = 200_000
/** Events published in a row: fewer than a subscriber may have waiting. */
const MOST_EVENTS = 800
const PACED_EVENTS = 60
const PACED_EVERY_MS = 50
/** Each system is measured so often, in turn with the others: the middle of each figure counts. */
const TIMES = 3

async function measure(system: SystemName, subscribers: number): Promise<Measured> {
  const server = await startFanoutServer(system)
  const clients = startFanoutClients()
  try {
    const empty = await server.ask({ type: 'usage' })
    await clients.subscribe(server.subscribings[0]!, subscribers)
    const full = await server.ask({ type: 'usage' })
    const events = Math.min(MOST_EVENTS, MESSAGES / subscribers)
    /** Publishes, and waits for all of it to arrive. */
    const run = async (count: number, everyMs: number, withDelays: boolean) => {
      const before = await server.ask({ type: 'usage' })
      const { all } = await clients.expect(count * subscribers, withDelays)
      const startedAt = now()
      const [result] = await Promise.all([all, server.ask({ type: 'publish', events: count, everyMs })])
      const after = await cpuOf(server)
      return { ...result, seconds: (result.endedAt - startedAt) / 1000, cpuSeconds: after - before.cpuSeconds }
    }
    await run(Math.ceil(events / 4), 0, false)
    const fast = await run(events, 0, false)
    const paced = await run(PACED_EVENTS, PACED_EVERY_MS, true)
    return {
      system,
      subscribers,
      messagesASecond: (events * subscribers) / fast.seconds,
      microsecondsOfCpu: (fast.cpuSeconds * 1e6) / (events * subscribers),
      p50: percentile(paced.delays, 0.5),
      p99: percentile(paced.delays, 0.99),
      kibibytesOfSubscriber: ((full.residentMebibytes - empty.residentMebibytes) * 1024) / subscribers,
      bytesOfMessage: fast.bytesOfEach,
    }
  } finally {
    clients.stop()
    await server.stop()
  }
}

const cpuOf = async (server: FanoutServer) => (await server.ask({ type: 'usage' })).cpuSeconds

/** The figures of one measurement, with their bounds where the project promises something. */
function figuresOf(one: Measured, all: Measured[]): Figure[] {
  const { system, subscribers, messagesASecond, microsecondsOfCpu, p50, p99, kibibytesOfSubscriber } = one
  const name = `${SYSTEMS[system]}, ${subscribers} subscribers`
  const reference = (other: SystemName) =>
    all.find((candidate) => candidate.system === other && candidate.subscribers === subscribers)
  const isPromised = system === 'parley-redis' && subscribers === 1000
  const [wire, usual] = [reference('ws'), reference('yoga')]
  const ratios: Figure[] = [
    {
      what: `${name}: messages over plain \`ws\``,
      value: messagesASecond / (wire?.messagesASecond ?? Number.NaN),
      unit: '×',
      ...(isPromised ? { bound: { atLeast: 0.8 } } : {}),
    },
    {
      what: `${name}: messages over yoga`,
      value: messagesASecond / (usual?.messagesASecond ?? Number.NaN),
      unit: '×',
      ...(isPromised ? { bound: { atLeast: 3 } } : {}),
    },
    {
      what: `${name}: p50 over plain \`ws\``,
      value: p50 / (wire?.p50 ?? Number.NaN),
      unit: '×',
      ...(isPromised ? { bound: { atMost: 1.25 } } : {}),
    },
  ]
  return [
    { what: `${name}: messages`, value: messagesASecond, unit: '/s' },
    { what: `${name}: CPU of a message`, value: microsecondsOfCpu, unit: 'µs' },
    { what: `${name}: p50 at 20 events/s`, value: p50, unit: 'ms' },
    { what: `${name}: p99 at 20 events/s`, value: p99, unit: 'ms' },
    { what: `${name}: memory of a subscriber`, value: kibibytesOfSubscriber, unit: 'KiB' },
    ...(system.startsWith('parley') ? ratios : []),
  ]
}

/** The middle of each figure of one system. */
function middleOf(times: Measured[]): Measured {
  const [one] = times as [Measured]
  const figures = Object.entries(one).map(([name, value]) => {
    if (name === 'subscribers' || typeof value !== 'number') return [name, value]
    return [
      name,
      percentile(
        times.map((each) => each[name as keyof Measured] as number),
        0.5,
      ),
    ]
  })
  return Object.fromEntries(figures)
}

async function measureInTurn(subscribers: number): Promise<Measured[]> {
  const systems = Object.keys(SYSTEMS) as SystemName[]
  const times: Measured[] = []
  for (let time = 0; time < TIMES; time++) {
    for (const system of systems) {
      const one = await measure(system, subscribers)
      console.error(JSON.stringify(one))
      times.push(one)
    }
  }
  return systems.map((system) => middleOf(times.filter((one) => one.system === system)))
}

export const fanout: Benchmark = {
  question: `How many messages a second reach the subscribers of one space, each with an operation id of its own? The middle of ${TIMES}.`,
  async run() {
    const all: Measured[] = []
    for (const subscribers of SUBSCRIBERS) all.push(...(await measureInTurn(subscribers)))
    await writeChart(SYSTEMS, SUBSCRIBERS, all)
    return all.flatMap((one) => figuresOf(one, all))
  },
}
