import type { Benchmark } from './support/figures.ts'
import { type Model, modelName, now, startModel } from './support/model.ts'
import { measureCommits } from './support/postgres-reference.ts'
import { runRawLoops } from './support/raw-loops.ts'
import { type Backing, createRoom, type Room, startStack } from './support/stack.ts'
import { say, type Watch, watchRoom, watchRuns } from './support/watch.ts'

const AT_ONCE = 20
const RUNS = 1000
/**
 * By the end of the warm-up, connections have planned each statement six times, and Node has compiled the code. The bare loops
 * have the same warm-up.
 */
const WARM_UP = 1000
const MODEL = modelName(50, 0)

type Watched = Room & { watch: Watch }

/** Keeps every room's agent busy, one run at a time, until `runs` have ended; returns the seconds it took. */
async function complete(rooms: Watched[], runs: number): Promise<number> {
  const { promise: done, resolve } = Promise.withResolvers<void>()
  let begun = 0
  let ended = 0
  const next = async (room: Watched) => {
    if (begun === runs) return
    begun += 1
    await say(room)
  }
  const stops = await Promise.all(
    rooms.map((room) =>
      watchRuns(room, room.watch, () => {
        ended += 1
        if (ended === runs) resolve()
        else void next(room)
      }),
    ),
  )
  const startedAt = now()
  await Promise.all(rooms.map(next))
  await done
  const seconds = (now() - startedAt) / 1000
  for (const stop of stops) stop()
  return seconds
}

interface Trial {
  backing?: Backing
  processes?: 1 | 2
  model?: string
  rooms?: number
  runs?: number
  warmUp?: number
  settings?: Record<string, string>
}

/** Measures durable runs per second: one room per concurrent run, each with a subscribed client. */
async function runsASecond(model: Model, trial: Trial = {}): Promise<number> {
  const { backing = 'PostgreSQL and Redis', processes = 1, runs = RUNS, warmUp = WARM_UP, settings } = trial
  const stack = await startStack(backing, model, settings)
  for (let n = 1; n < processes; n++) await stack.join({ PARLEY_ROLE: 'worker' })
  const rooms = await Promise.all(
    Array.from({ length: trial.rooms ?? AT_ONCE }, () => createRoom(stack, trial.model ?? MODEL)),
  )
  const watched = await Promise.all(rooms.map(async (room) => ({ ...room, watch: await watchRoom(room) })))
  await complete(watched, warmUp)
  const seconds = await complete(watched, runs)
  await Promise.all(rooms.map(({ human }) => human.close()))
  await stack.stop()
  return runs / seconds
}

/** A model that takes half a second, and at most 20 concurrent runs per process, so that the machine is not saturated. */
const WITH_ROOM: Trial = {
  model: modelName(50, 10),
  rooms: 60,
  runs: 400,
  settings: { PARLEY_WORKER_CONCURRENCY: '20' },
}

export const durableRuns: Benchmark = {
  question: `How many durable runs of 50 deltas, ${AT_ONCE} concurrently, each with a subscriber, does a process execute per second on PostgreSQL and Redis?`,
  mostMinutes: 10,
  async run({ quick }) {
    const model = await startModel()
    const runs = quick ? RUNS / 5 : RUNS
    const warmUp = quick ? WARM_UP / 5 : WARM_UP
    const trial = { runs, warmUp }
    const one = await runsASecond(model, trial)
    const loops = { loops: runs, atOnce: AT_ONCE, warmUp }
    const { seconds } = await runRawLoops({ baseUrl: model.baseUrl, model: MODEL, ...loops })
    const raw = runs / seconds
    const two = await runsASecond(model, { ...trial, processes: 2 })
    const embedded = await runsASecond(model, { ...trial, backing: 'embedded' })
    const roomy = await runsASecond(model, { ...WITH_ROOM, warmUp })
    const roomyTwo = await runsASecond(model, { ...WITH_ROOM, warmUp, processes: 2 })
    await model.stop()
    const commits = (await measureCommits(AT_ONCE)).aSecond
    return [
      { what: 'durable runs a second, one process', value: one, unit: '/s' },
      { what: 'loops a second by `streamText` alone', value: raw, unit: '/s' },
      { what: 'one process over the loops', value: one / raw, unit: '×', bound: { atLeast: 0.5 } },
      { what: 'two processes over one, all on two cores', value: two / one, unit: '×', bound: { atLeast: 1 } },
      {
        what: 'two over one, of 20 runs at a time each, with a model that takes half a second',
        value: roomyTwo / roomy,
        unit: '×',
        bound: { atLeast: 1.6 },
      },
      { what: 'embedded over PostgreSQL and Redis', value: embedded / one, unit: '×', bound: { atLeast: 0.5 } },
      { what: 'commits a second of one row on that PostgreSQL, 20 at a time', value: commits, unit: '/s' },
      { what: 'LangGraph.js server', value: 32, unit: '/s', source: 'issue 2' },
      { what: 'Mastra without storage', value: 354, unit: '/s', source: 'issue 2' },
    ]
  },
}
