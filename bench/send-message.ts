import { type Benchmark, percentile } from './support/figures.ts'
import { now, startModel } from './support/model.ts'
import { VIEWER } from './support/operations.ts'
import { measureCommits } from './support/postgres-reference.ts'
import { createRoom, startStack } from './support/stack.ts'
import { say } from './support/watch.ts'

const AT_ONCE = 20
const CALLS = 2000
const WARM_UP = 200

/** Returns the milliseconds of each call, with `AT_ONCE` concurrent calls. */
async function timesOf(calls: number, call: (lane: number) => Promise<unknown>): Promise<number[]> {
  const times: number[] = []
  let left = calls
  const lane = async (index: number) => {
    while (left-- > 0) {
      const startedAt = now()
      await call(index)
      times.push(now() - startedAt)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => lane(index)))
  return times
}

export const sendMessage: Benchmark = {
  question: `How long does \`sendMessage\` take, ${AT_ONCE} at a time, on PostgreSQL and Redis?`,
  async run() {
    const model = await startModel()
    const stack = await startStack('PostgreSQL and Redis', model)
    const rooms = await Promise.all(Array.from({ length: AT_ONCE }, () => createRoom(stack, null)))
    const sendIn = (lane: number) => say(rooms[lane] as (typeof rooms)[number])
    await timesOf(WARM_UP, sendIn)
    const spread = await timesOf(CALLS, sendIn)
    const together = await timesOf(CALLS, () => sendIn(0))
    const viewer = await timesOf(
      CALLS,
      (lane) => rooms[lane]?.human.send(VIEWER, {}) ?? Promise.reject(new Error('no room')),
    )
    await Promise.all(rooms.map(({ human }) => human.close()))
    await stack.stop()
    await model.stop()
    const commits = await measureCommits(AT_ONCE)
    const overViewer = percentile(spread, 0.5) / percentile(viewer, 0.5)
    return [
      { what: '`sendMessage` in 20 spaces, p50', value: percentile(spread, 0.5), unit: 'ms' },
      { what: '`sendMessage` in 20 spaces, p95', value: percentile(spread, 0.95), unit: 'ms' },
      { what: '`sendMessage` in one space, p50', value: percentile(together, 0.5), unit: 'ms' },
      { what: '`{ viewer { id } }`, p50: HTTP and GraphQL alone', value: percentile(viewer, 0.5), unit: 'ms' },
      { what: '`sendMessage` over it', value: overViewer, unit: '×', bound: { atMost: 1.8 } },
      { what: 'a commit of one row on that PostgreSQL, p50', value: percentile(commits.times, 0.5), unit: 'ms' },
    ]
  },
}
