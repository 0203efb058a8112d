import { setTimeout as pause } from 'node:timers/promises'
import type { ParleyClient } from '../test/support/parley-client.ts'
import { createParleyClient } from '../test/support/parley-client.ts'
import { type Crowd, startCrowd, subscribingTo } from './support/crowd.ts'
import { type Benchmark, type Figure, percentile } from './support/figures.ts'
import { type BriefRetention, keepBriefly } from './support/kept-briefly.ts'
import { modelName, now, startModel } from './support/model.ts'
import { createRoom, type Room, residentMebibytesOf, type Stack, startStack } from './support/stack.ts'
import { say, watchRoom } from './support/watch.ts'

const MINUTES = Number(process.env['SOAK_MINUTES'] ?? 30)
const QUICK_MINUTES = 3
/** How long rows are retained, as a share of the whole run. After that time, the server deletes as many rows as it inserts. */
const KEPT_SHARE = 1 / 10
const SAMPLE_MS = 5000
const SWEEP_MS = 2000
/**
 * The interval of PostgreSQL's autovacuum. If autovacuum is off, the benchmark vacuums at this interval, because the space of
 * deleted rows would never be reused otherwise.
 */
const VACUUM_MS = 60_000
/** The maximum ratio of the last third to the middle third. */
const MOST_GROWTH = 1.1
/** Growth by fewer rows than this is ignored. */
const ROWS_OF_CHANCE = 50
/** Tables that are never cleaned up: the cycles of a persistent agent are its memory. */
const KEPT_FOR_EVER = ['Cycle']
/** The rooms, each with the interval in ms at which a person acts in it. The starts are spread over time. */
const ROOMS = [
  ...Array.from({ length: 8 }, () => ({
    model: modelName(50, 10),
    everyMs: 1000,
    agents: 1,
    mind: 'STATELESS' as const,
  })),
  { model: modelName(20, 5), everyMs: 3000, agents: 3, mind: 'STATELESS' as const },
  { model: 'skips', everyMs: 1000, agents: 1, mind: 'PERSISTENT' as const },
  { model: 'fails', everyMs: 5000, agents: 1, mind: 'STATELESS' as const },
]
/** Agents that answer each other stop after a few messages, so the rate is even and below the limit of a process. */
const SETTINGS = { PARLEY_MAX_ROOT_RUNS: '6' }
const READS_EVERY_MS = 500
/** The duration of this request does not depend on Parley's data. If it grew, the machine became slower. */
const LOOKS_EVERY_MS = 100
const LOOK = '{ viewer { id } }'
const RECONNECTS_EVERY_MS = 1000

interface Sample {
  at: number
  memory: Record<string, number>
  rows: Record<string, number>
  mebibytes: number
}

const READ = `query ($id: ID!) { space(id: $id) { messages(last: 50) { edges { node { id text sender { name } run { id status }
  outcomes { kind } } } } } viewer { unreadCount } }`

/** Repeats an action until the end, at a rate that does not depend on its duration. */
async function every(ms: number, until: number, task: () => Promise<unknown>): Promise<void> {
  const begun: Promise<unknown>[] = []
  while (now() < until) {
    begun.push(task())
    await pause(ms)
    if (begun.length > 100) await Promise.all(begun.splice(0))
  }
  await Promise.all(begun)
}

/** Connects as a person, reads, and disconnects. */
async function comeAndGo(origin: string, { token, spaceId }: Room): Promise<void> {
  const client = createParleyClient({ origin, token })
  const watch = await watchRoom({ human: client, spaceId, token, agentIds: [] })
  watch.stop()
  await client.close()
}

async function read(client: ParleyClient, spaceId: string): Promise<void> {
  const { errors } = await client.ask(READ, { id: spaceId })
  if (errors) throw new Error(JSON.stringify(errors))
}

async function sample(processes: Record<string, number>, { db }: BriefRetention): Promise<Sample> {
  const tables = await db.prisma.$queryRaw<{ name: string }[]>`
    SELECT relname AS name FROM pg_stat_user_tables WHERE schemaname = 'public' AND relname NOT LIKE '\\_%' ORDER BY 1`
  const counts = tables.map(({ name }) => `SELECT '${name}' AS name, count(*)::int AS rows FROM "${name}"`)
  const rows = await db.prisma.$queryRawUnsafe<{ name: string; rows: number }[]>(counts.join(' UNION ALL '))
  const [size] = await db.prisma.$queryRaw<{ mebibytes: number }[]>`
    SELECT pg_database_size(current_database())::float8 / 1048576 AS mebibytes`
  const memory = Object.entries(processes).map(async ([name, pid]) => [name, await residentMebibytesOf(pid)] as const)
  return {
    at: now(),
    memory: Object.fromEntries(await Promise.all(memory)),
    rows: Object.fromEntries(rows.map((row) => [row.name, row.rows])),
    mebibytes: size?.mebibytes ?? Number.NaN,
  }
}

/** Returns the values of the middle third and of the last one. */
function thirds<T extends { at: number }>(all: T[], from: number, to: number): { middle: T[]; last: T[] } {
  const third = (to - from) / 3
  const between = (since: number) => all.filter(({ at }) => at >= since && at < since + third)
  return { middle: between(from + third), last: between(from + 2 * third) }
}

const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length

async function vacuum({ db }: BriefRetention): Promise<void> {
  const [row] = await db.prisma.$queryRaw<{ autovacuum: string }[]>`SHOW autovacuum`
  if (row?.autovacuum === 'off') await db.prisma.$executeRaw`VACUUM (ANALYZE)`
}

function compared(what: string, unit: string, middle: number, last: number, chance = 0): Figure[] {
  const bound = { atMost: Math.max(middle * MOST_GROWTH, middle + chance) }
  return [
    { what: `${what}, middle third`, value: middle, unit },
    { what: `${what}, last third`, value: last, unit, bound },
  ]
}

/** When the request started, and how long it took. */
interface Answered {
  at: number
  ms: number
}

async function timed(answers: Answered[], ask: () => Promise<unknown>): Promise<void> {
  const at = now()
  await ask()
  answers.push({ at, ms: now() - at })
}

async function load(stack: Stack, until: number, { sent, looked }: Pick<Measured, 'sent' | 'looked'>): Promise<void> {
  const { origin } = stack.parley
  const rooms = await Promise.all(ROOMS.map(({ model, agents, mind }) => createRoom(stack, model, agents, mind)))
  const watchers = await watchAll(stack, rooms)
  const [first] = rooms as [Room]
  await Promise.all([
    ...rooms.map(async (room, index) => {
      const { everyMs } = ROOMS[index] as (typeof ROOMS)[number]
      await pause((everyMs * index) / ROOMS.length)
      await every(everyMs, until, () => timed(sent, () => say(room)))
    }),
    every(READS_EVERY_MS, until, () => read(first.human, first.spaceId)),
    every(LOOKS_EVERY_MS, until, () => timed(looked, () => first.human.ask(LOOK))),
    every(RECONNECTS_EVERY_MS, until, () => comeAndGo(origin, first)),
  ])
  watchers.stop()
  await Promise.all(rooms.map(({ human }) => human.close()))
}

/**
 * Subscribes to each room from a process that discards events, because garbage collection in this process would distort the
 * times.
 */
async function watchAll({ parley }: Stack, rooms: Room[]): Promise<Crowd> {
  const crowd = startCrowd()
  const sockets = rooms.map((room) => [subscribingTo(room, parley.origin)])
  await crowd.ask({ type: 'open', sockets, marked: 0 })
  return crowd
}

export const soak: Benchmark = {
  question:
    'Do memory, response times and table sizes stay constant under hours of mixed load, with retention on? The load is messages, streams, think cycles, failures, readers, and sockets that connect and disconnect, at an even rate; rows older than a tenth of the duration are deleted.',
  mostMinutes: MINUTES + 10,
  onlyByName: true,
  async run({ quick }) {
    const minutes = quick ? Math.min(QUICK_MINUTES, MINUTES) : MINUTES
    const model = await startModel()
    const stack = await startStack('PostgreSQL and Redis', model, { ...SETTINGS, PARLEY_ROLE: 'api' })
    const worker = await stack.join({ ...SETTINGS, PARLEY_ROLE: 'worker' })
    const retention = await keepBriefly(stack.databaseUrl ?? '', minutes * 60_000 * KEPT_SHARE)
    const [from, until] = [now(), now() + minutes * 60_000]
    const samples: Sample[] = []
    const answers = { sent: [] as Answered[], looked: [] as Answered[] }
    const processes = { 'the process that serves': stack.parley.pid, 'the process that works': worker.pid }
    await Promise.all([
      load(stack, until, answers),
      every(SAMPLE_MS, until, async () => samples.push(await sample(processes, retention))),
      every(SAMPLE_MS, until, () => model.generations()),
      every(VACUUM_MS, until, () => vacuum(retention)),
      (async () => {
        while (now() < until) await retention.sweep().then(() => pause(SWEEP_MS))
      })(),
    ])
    await retention.close()
    await stack.stop()
    await model.stop()
    const measured = { samples, ...answers, from, until, batches: retention.batches }
    return { figures: figuresOf(measured), data: minutesOf(measured) }
  },
}

interface Measured {
  samples: Sample[]
  sent: Answered[]
  looked: Answered[]
  from: number
  until: number
  batches: number[]
}

const percentileOf = (answers: Answered[], share: number) =>
  percentile(
    answers.map(({ ms }) => ms),
    share,
  )

/** The values of each minute show whether a value grew steadily or had one exceptional minute. */
function minutesOf({ samples, sent, looked, from, until }: Measured) {
  return Array.from({ length: Math.round((until - from) / 60_000) }, (_, minute) => {
    const isIn = ({ at }: { at: number }) => Math.floor((at - from) / 60_000) === minute
    const answers = sent.filter(isIn)
    const [p50, p99] = [0.5, 0.99].map((share) => percentileOf(answers, share))
    const looksP99 = percentileOf(looked.filter(isIn), 0.99)
    return { messages: answers.length, p50, p99, looksP99, memory: samples.findLast(isIn)?.memory }
  })
}

function figuresOf({ samples, sent, looked, from, until, batches }: Measured): Figure[] {
  const { middle, last } = thirds(samples, from, until)
  const answers = thirds(sent, from, until)
  const looks = thirds(looked, from, until)
  const names = Object.keys(samples[0]?.memory ?? {})
  const isUsed = (table: string) => last.some(({ rows }) => (rows[table] ?? 0) > 0)
  const tables = Object.keys(last[0]?.rows ?? {}).filter((name) => !KEPT_FOR_EVER.includes(name) && isUsed(name))
  const rowsOf = (part: Sample[], table: string) => mean(part.map(({ rows }) => rows[table] ?? 0))
  return [
    { what: 'length', value: (until - from) / 60_000, unit: 'minutes' },
    { what: 'messages sent', value: sent.length, unit: '' },
    ...names.flatMap((name) => {
      const memoryOf = (part: Sample[]) => mean(part.map(({ memory }) => memory[name] ?? Number.NaN))
      return compared(`memory of ${name}`, 'MiB', memoryOf(middle), memoryOf(last))
    }),
    { what: '`sendMessage`, p50, middle third', value: percentileOf(answers.middle, 0.5), unit: 'ms' },
    { what: '`sendMessage`, p50, last third', value: percentileOf(answers.last, 0.5), unit: 'ms' },
    ...compared('`sendMessage`, p99', 'ms', percentileOf(answers.middle, 0.99), percentileOf(answers.last, 0.99)),
    { what: '`{ viewer { id } }`, p99, middle third', value: percentileOf(looks.middle, 0.99), unit: 'ms' },
    { what: '`{ viewer { id } }`, p99, last third', value: percentileOf(looks.last, 0.99), unit: 'ms' },
    ...compared(
      'the database on disk',
      'MiB',
      mean(middle.map(({ mebibytes }) => mebibytes)),
      mean(last.map(({ mebibytes }) => mebibytes)),
    ),
    ...tables.flatMap((table) =>
      compared(`rows of ${table}`, '', rowsOf(middle, table), rowsOf(last, table), ROWS_OF_CHANCE),
    ),
    { what: 'batches of retention', value: batches.length, unit: '' },
    { what: 'a batch of retention, p99', value: percentile(batches, 0.99), unit: 'ms' },
  ]
}
