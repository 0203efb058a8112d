import { startCrowd, subscribingTo } from './support/crowd.ts'
import { startFanoutServer } from './support/fanout-server.ts'
import { type Benchmark, type Figure, percentile } from './support/figures.ts'
import { modelName, now, startModel } from './support/model.ts'
import { cpuSecondsOf, createRoom, startStack } from './support/stack.ts'
import { delaysOf } from './support/tokens.ts'
import { say, watchRoom } from './support/watch.ts'

const AGENTS = 20
const SUBSCRIBERS = 1000
const SECONDS = 10
const TOKENS_A_SECOND = 50
const MODEL = modelName(SECONDS * TOKENS_A_SECOND, 1000 / TOKENS_A_SECOND)

/** The measurement leaves out the first tokens, because starting the runs takes most of the CPU at first (see first-delta). */
const BEGINNING_TOKENS = 2 * TOKENS_A_SECOND
const MARKED = 40

export const crowd: Benchmark = {
  question: `${AGENTS} agents of ${TOKENS_A_SECOND} tokens/s in one space, ${SUBSCRIBERS} subscribers: does one core deliver every token in time?`,
  async run() {
    const served = await serve()
    return { figures: [...served, ...(await serveRuns())], summary: summaryOf(served) }
  },
}

/** Returns the paragraph for docs/speed.md. */
export function summaryOf(served: readonly Pick<Figure, 'value'>[]): string {
  const [cores, p99, p50, messages] = served.map(({ value }) => value) as [number, number, number, number]
  const [all, share] = [(Math.round(messages / 1000) * 1000).toLocaleString('en'), cores.toFixed(2)]
  return [
    `With ${AGENTS} agents that write ${TOKENS_A_SECOND} tokens/s each in one space with ${SUBSCRIBERS.toLocaleString('en')} subscribers, over Redis, Parley delivers ${all} messages/s`,
    `on ${share} of a core. A token takes ${p50.toFixed(0)} ms (p50) or ${p99.toFixed(0)} ms (p99) to reach a subscriber ([results](../bench/results/crowd.md)).`,
  ].join('\n')
}

/** The agents post within the serving process, as the engine does, but without models and runs. */
async function serve(): Promise<Figure[]> {
  const server = await startFanoutServer('parley-redis')
  const subscribers = startCrowd()
  const sockets = Array.from({ length: SUBSCRIBERS }, () => [server.subscribings[0]!])
  await subscribers.ask({ type: 'open', sockets, marked: MARKED })
  const write = { type: 'write', agents: AGENTS, everyMs: 1000 / TOKENS_A_SECOND } as const
  await server.ask({ ...write, tokens: BEGINNING_TOKENS })
  await subscribers.ask({ type: 'begin' })
  const before = await server.ask({ type: 'usage' })
  const startedAt = now()
  const after = await server.ask({ ...write, tokens: SECONDS * TOKENS_A_SECOND })
  const seconds = (now() - startedAt) / 1000
  const wanted = MARKED * AGENTS * SECONDS * TOKENS_A_SECOND
  let counts = await subscribers.ask({ type: 'counts' })
  while (counts.delays.length < wanted) counts = await subscribers.ask({ type: 'counts' })
  subscribers.stop()
  await server.stop()
  const { delays, received } = counts
  const messages = received.reduce((sum, count) => sum + count, 0)
  const cores = (after.cpuSeconds - before.cpuSeconds) / seconds
  return [
    { what: 'CPU of the process that serves', value: cores, unit: 'cores', bound: { atMost: 1 } },
    { what: 'token’s way to a subscriber, p99', value: percentile(delays, 0.99), unit: 'ms', bound: { atMost: 60 } },
    { what: 'token’s way to a subscriber, p50', value: percentile(delays, 0.5), unit: 'ms' },
    { what: 'messages to all subscribers', value: messages / seconds, unit: '/s' },
  ]
}

/** Measures the same with real runs: a model process, a worker process and a serving process, all on this machine. */
async function serveRuns(): Promise<Figure[]> {
  const model = await startModel()
  // Messages of agents wake no other agents, so each agent posts once.
  const alone = { PARLEY_MAX_ROOT_RUNS: String(AGENTS) }
  const stack = await startStack('PostgreSQL and Redis', model, { ...alone, PARLEY_ROLE: 'api' })
  const worker = await stack.join({ PARLEY_ROLE: 'worker' })
  const room = await createRoom(stack, MODEL, AGENTS)
  const subscribers = startCrowd()
  const sockets = Array.from({ length: SUBSCRIBERS / 2 }, () => [subscribingTo(room, stack.parley.origin)])
  await subscribers.ask({ type: 'open', sockets, marked: 0 })
  const watch = await watchRoom(room)
  await subscribers.ask({ type: 'open', sockets: sockets.slice(1), marked: 0 })
  const cpuNow = () => Promise.all([stack.parley, worker].map(({ pid }) => cpuSecondsOf(pid)))
  const before = await cpuNow()
  const startedAt = now()
  await say(room)
  await watch.finished(AGENTS)
  const seconds = (now() - startedAt) / 1000
  const [serving = Number.NaN, working = Number.NaN] = (await cpuNow()).map((cpu, n) => (cpu - before[n]!) / seconds)
  const generations = await model.generations()
  const delays = generations.map((generation) => delaysOf([generation], watch.arrivedAt))
  subscribers.stop()
  await room.human.close()
  await stack.stop()
  await model.stop()
  const steady = delays.flatMap((ofAgent) => ofAgent.slice(BEGINNING_TOKENS))
  const beginning = delays.flatMap((ofAgent) => ofAgent.slice(0, BEGINNING_TOKENS))
  const all = { atLeast: AGENTS * SECONDS * TOKENS_A_SECOND }
  return [
    { what: 'real runs: tokens delivered to one in the middle', value: delays.flat().length, unit: '', bound: all },
    { what: 'real runs: CPU of the process that serves', value: serving, unit: 'cores', bound: { atMost: 1 } },
    { what: 'real runs: CPU of the process that works', value: working, unit: 'cores' },
    { what: 'real runs: token’s way from the model’s socket, p50', value: percentile(steady, 0.5), unit: 'ms' },
    { what: 'real runs: the same, p99', value: percentile(steady, 0.99), unit: 'ms' },
    { what: 'real runs: the same while they begin, p99', value: percentile(beginning, 0.99), unit: 'ms' },
  ]
}
