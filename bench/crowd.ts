import { startCrowd } from './support/crowd.ts'
import type { Subscribing } from './support/fanout-server.ts'
import { type Benchmark, type Figure, percentile } from './support/figures.ts'
import { modelName, now, startModel } from './support/model.ts'
import { SPACE_MESSAGES } from './support/operations.ts'
import { cpuSecondsOf, createRoom, type Room, startStack } from './support/stack.ts'
import { delaysOf, say, watchRoom } from './support/watch.ts'

const AGENTS = 20
const SUBSCRIBERS = 1000
const SECONDS = 10
const TOKENS_A_SECOND = 50
const MODEL = modelName(SECONDS * TOKENS_A_SECOND, 1000 / TOKENS_A_SECOND)

/** While the runs begin, their own work is what one waits for: see first-delta. */
const BEGINNING_TOKENS = 2 * TOKENS_A_SECOND

export const crowd: Benchmark = {
  question: `${AGENTS} agents of ${TOKENS_A_SECOND} tokens/s in one space, ${SUBSCRIBERS} subscribers, a process that serves and one that works: does one core serve them in time?`,
  async run() {
    const model = await startModel()
    // What the agents say wakes nobody: each writes once.
    const alone = { PARLEY_MAX_ROOT_RUNS: String(AGENTS) }
    const stack = await startStack('PostgreSQL and Redis', model, { ...alone, PARLEY_ROLE: 'api' })
    const worker = await stack.join({ PARLEY_ROLE: 'worker' })
    const room = await createRoom(stack, MODEL, AGENTS)
    const subscribers = startCrowd()
    const sockets = Array.from({ length: SUBSCRIBERS / 2 }, () => [subscribingTo(room, stack.parley.origin)])
    await subscribers.ask({ type: 'open', sockets, marked: 0 })
    const watch = await watchRoom(room)
    await subscribers.ask({ type: 'open', sockets: sockets.slice(1), marked: 0 })
    await subscribers.ask({ type: 'begin' })
    const processes = [stack.parley, worker, subscribers]
    const cpuNow = () => Promise.all(processes.map(({ pid }) => cpuSecondsOf(pid)))
    const before = await cpuNow()
    const startedAt = now()
    await say(room)
    await watch.finished(AGENTS)
    const seconds = (now() - startedAt) / 1000
    const cores = (await cpuNow()).map((cpu, index) => (cpu - (before[index] ?? 0)) / seconds)
    const { received } = await subscribers.all(watch.events())
    const generations = await model.generations()
    const delays = generations.map((generation) => delaysOf([generation], watch.arrivedAt))
    subscribers.stop()
    await room.human.close()
    await stack.stop()
    await model.stop()
    const messages = received.reduce((sum, count) => sum + count, 0)
    return figuresOf(delays, messages / seconds, cores)
  },
}

const subscribingTo = ({ token, spaceId }: Room, origin: string): Subscribing => ({
  url: `${origin.replace('http', 'ws')}/graphql`,
  authorization: `Bearer ${token}`,
  query: SPACE_MESSAGES.toString(),
  variables: { spaceId },
})

/** `delays` by agent and token; `cores` of the process that serves, the one that works, and the subscribers. */
function figuresOf(delays: number[][], messagesASecond: number, cores: number[]): Figure[] {
  const [serving = Number.NaN, working = Number.NaN, subscribing = Number.NaN] = cores
  const steady = delays.flatMap((ofAgent) => ofAgent.slice(BEGINNING_TOKENS))
  const beginning = delays.flatMap((ofAgent) => ofAgent.slice(0, BEGINNING_TOKENS))
  const all = { atLeast: AGENTS * SECONDS * TOKENS_A_SECOND }
  return [
    { what: 'CPU of the process that serves', value: serving, unit: 'cores', bound: { atMost: 1 } },
    { what: 'token’s way to a subscriber, p99', value: percentile(steady, 0.99), unit: 'ms', bound: { atMost: 60 } },
    { what: 'token’s way to a subscriber, p50', value: percentile(steady, 0.5), unit: 'ms' },
    { what: 'the same while the runs begin, p99', value: percentile(beginning, 0.99), unit: 'ms' },
    { what: 'tokens delivered to it', value: delays.flat().length, unit: '', bound: all },
    { what: 'messages to all subscribers', value: messagesASecond, unit: '/s' },
    { what: 'CPU of the process that works', value: working, unit: 'cores' },
    { what: 'CPU of the subscribers', value: subscribing, unit: 'cores' },
  ]
}
