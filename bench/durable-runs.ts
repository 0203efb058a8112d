import type { Benchmark } from './support/figures.ts'
import { modelName, now, startModel } from './support/model.ts'
import { measureCommits } from './support/postgres-reference.ts'
import { runRawLoops } from './support/raw-loops.ts'
import { createRoom, type Room, startStack } from './support/stack.ts'
import { say, watchActivity, watchRoom } from './support/watch.ts'

const AT_ONCE = 20
const RUNS = 1000
const WARM_UP = 100
const MODEL = modelName(50, 0)

/** Keeps every room's agent busy, one run at a time, until `runs` have ended; answers with the seconds it took. */
async function complete(rooms: Room[], runs: number): Promise<number> {
  const { promise: done, resolve } = Promise.withResolvers<void>()
  let begun = 0
  let ended = 0
  const next = async (room: Room) => {
    if (begun === runs) return
    begun += 1
    await say(room)
  }
  const stops = await Promise.all(
    rooms.map((room) =>
      watchActivity(room, () => {
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

export const durableRuns: Benchmark = {
  question: `How many durable runs of 50 deltas a second, ${AT_ONCE} at a time, on PostgreSQL and Redis in one process?`,
  async run() {
    const model = await startModel()
    const stack = await startStack('PostgreSQL and Redis', model)
    const rooms = await Promise.all(Array.from({ length: AT_ONCE }, () => createRoom(stack, MODEL)))
    await Promise.all(rooms.map((room) => watchRoom(room)))
    await complete(rooms, WARM_UP)
    const seconds = await complete(rooms, RUNS)
    await Promise.all(rooms.map(({ human }) => human.close()))
    await stack.stop()
    const raw = await runRawLoops({ baseUrl: model.baseUrl, model: MODEL, loops: RUNS, atOnce: AT_ONCE })
    await model.stop()
    return [
      { what: 'durable runs a second', value: RUNS / seconds, unit: '/s', bound: { atLeast: 100 } },
      { what: 'loops a second by `streamText` alone', value: RUNS / raw.seconds, unit: '/s' },
      {
        what: 'commits a second of one row on that PostgreSQL, 20 at a time',
        value: (await measureCommits(20)).aSecond,
        unit: '/s',
      },
      { what: 'LangGraph.js server', value: 32, unit: '/s', source: 'issue 2' },
      { what: 'Mastra without storage', value: 354, unit: '/s', source: 'issue 2' },
    ]
  },
}
