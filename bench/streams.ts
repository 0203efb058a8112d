import { type Benchmark, percentile } from './support/figures.ts'
import { type Model, modelName, now, startModel } from './support/model.ts'
import { runRawLoops } from './support/raw-loops.ts'
import { cpuSecondsOf, createRoom, startStack } from './support/stack.ts'
import { delaysOf } from './support/tokens.ts'
import { say, watchRoom } from './support/watch.ts'

const AGENTS = 20
const RUNS_OF_AN_AGENT = 5
const SECONDS = 10
const TOKENS_A_SECOND = 50
const MODEL = modelName(SECONDS * TOKENS_A_SECOND, 1000 / TOKENS_A_SECOND)
const LOOPS = AGENTS * RUNS_OF_AN_AGENT

/**
 * Runs the same loops with `streamText` only, to measure their cost with and without merged parts and, in a separate run, the
 * latency of each token.
 */
async function runAlone(model: Model) {
  const order = { baseUrl: model.baseUrl, model: MODEL, loops: LOOPS, atOnce: LOOPS }
  const raw = await runRawLoops(order)
  const joined = await runRawLoops({ ...order, areJoined: true })
  await model.generations()
  const { arrivedAt } = await runRawLoops({ ...order, areNoted: true })
  return { raw, joined, delays: delaysOf(await model.generations(), arrivedAt) }
}

export const streams: Benchmark = {
  question: `${LOOPS} runs at once of ${TOKENS_A_SECOND} tokens/s in one process: does each delta arrive in time, and at what cost?`,
  async run() {
    const model = await startModel()
    const stack = await startStack('PostgreSQL and Redis', model, { PARLEY_WORKER_CONCURRENCY: '100' })
    const rooms = await Promise.all(Array.from({ length: AGENTS }, () => createRoom(stack, MODEL)))
    const watches = await Promise.all(rooms.map((room) => watchRoom(room)))
    const cpuBefore = await cpuSecondsOf(stack.parley.pid)
    const startedAt = now()
    await Promise.all(rooms.flatMap((room) => Array.from({ length: RUNS_OF_AN_AGENT }, () => say(room))))
    await Promise.all(watches.map((watch) => watch.finished(RUNS_OF_AN_AGENT)))
    const seconds = (now() - startedAt) / 1000
    const cpuSeconds = (await cpuSecondsOf(stack.parley.pid)) - cpuBefore
    const delays = delaysOf(await model.generations(), new Map(watches.flatMap(({ arrivedAt }) => [...arrivedAt])))
    await Promise.all(rooms.map(({ human }) => human.close()))
    await stack.stop()
    const { raw, joined, delays: delaysAlone } = await runAlone(model)
    await model.stop()
    return [
      {
        what: 'token’s way to the subscriber, p99',
        value: percentile(delays, 0.99),
        unit: 'ms',
        bound: { atMost: 100 },
      },
      { what: 'token’s way to the subscriber, p50', value: percentile(delays, 0.5), unit: 'ms', bound: { atMost: 30 } },
      {
        what: 'tokens delivered',
        value: delays.length,
        unit: '',
        bound: { atLeast: LOOPS * SECONDS * TOKENS_A_SECOND },
      },
      { what: 'CPU of Parley', value: cpuSeconds, unit: 's' },
      { what: 'CPU of the same agent loops with `streamText` alone', value: raw.cpuSeconds, unit: 's' },
      { what: 'CPU of Parley over that', value: cpuSeconds / raw.cpuSeconds, unit: '×', bound: { atMost: 1.3 } },
      { what: 'CPU of the same loops, their parts joined as Parley joins them', value: joined.cpuSeconds, unit: 's' },
      {
        what: 'token’s way to who reads `streamText` alone, p99',
        value: percentile(delaysAlone, 0.99),
        unit: 'ms',
      },
      {
        what: 'token’s way to who reads `streamText` alone, p50',
        value: percentile(delaysAlone, 0.5),
        unit: 'ms',
      },
      { what: 'seconds, all runs', value: seconds, unit: 's' },
      { what: 'seconds, all loops by `streamText` alone', value: raw.seconds, unit: 's' },
    ]
  },
}
