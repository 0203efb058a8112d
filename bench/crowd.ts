import { startCrowd } from './support/crowd.ts'
import { type Benchmark, percentile } from './support/figures.ts'
import { modelName, now, startModel } from './support/model.ts'
import { SPACE_MESSAGES } from './support/operations.ts'
import { cpuSecondsOf, createRoom, startStack } from './support/stack.ts'
import { delaysOf, say, watchRoom } from './support/watch.ts'

const AGENTS = 20
const SUBSCRIBERS = 1000
const SECONDS = 10
const TOKENS_A_SECOND = 50
const MODEL = modelName(SECONDS * TOKENS_A_SECOND, 1000 / TOKENS_A_SECOND)

export const crowd: Benchmark = {
  question: `${AGENTS} agents of ${TOKENS_A_SECOND} tokens/s in one space, ${SUBSCRIBERS} subscribers, everything in one process: does one core carry it?`,
  async run() {
    const model = await startModel()
    // What the agents say wakes nobody: each writes once.
    const stack = await startStack('PostgreSQL and Redis', model, { PARLEY_MAX_ROOT_RUNS: String(AGENTS) })
    const room = await createRoom(stack, MODEL, AGENTS)
    const url = `${stack.parley.origin.replace('http', 'ws')}/graphql`
    const subscribing = {
      url,
      authorization: `Bearer ${room.token}`,
      query: SPACE_MESSAGES.toString(),
      variables: { spaceId: room.spaceId },
    }
    const subscribers = startCrowd()
    await subscribers.ask({
      type: 'open',
      sockets: Array.from({ length: SUBSCRIBERS - 1 }, () => [subscribing]),
      marked: 0,
    })
    const watch = await watchRoom(room)
    await subscribers.ask({ type: 'begin' })
    const cpuBefore = await cpuSecondsOf(stack.parley.pid)
    const crowdBefore = await cpuSecondsOf(subscribers.pid)
    const startedAt = now()
    await say(room)
    await watch.finished(AGENTS)
    const seconds = (now() - startedAt) / 1000
    const cpuSeconds = (await cpuSecondsOf(stack.parley.pid)) - cpuBefore
    const crowdCpuSeconds = (await cpuSecondsOf(subscribers.pid)) - crowdBefore
    const { received } = await subscribers.all(watch.events())
    const delays = delaysOf(await model.generations(), watch.arrivedAt)
    subscribers.stop()
    await room.human.close()
    await stack.stop()
    await model.stop()
    const messages = received.reduce((sum, count) => sum + count, 0)
    return [
      { what: 'CPU of Parley, runs and all', value: cpuSeconds / seconds, unit: 'cores', bound: { atMost: 1 } },
      { what: 'token’s way to a subscriber, p99', value: percentile(delays, 0.99), unit: 'ms', bound: { atMost: 60 } },
      { what: 'token’s way to a subscriber, p50', value: percentile(delays, 0.5), unit: 'ms' },
      {
        what: 'tokens delivered to it',
        value: delays.length,
        unit: '',
        bound: { atLeast: AGENTS * SECONDS * TOKENS_A_SECOND },
      },
      { what: 'messages to all subscribers', value: messages / seconds, unit: '/s' },
      { what: 'CPU of the subscribers', value: crowdCpuSeconds / seconds, unit: 'cores' },
    ]
  },
}
