import { collectGarbageOf } from '../test/support/collected-heap.ts'
import { startThrowawayPostgres } from '../test/support/throwaway-postgres.ts'
import { startThrowawayRedis } from '../test/support/throwaway-redis.ts'
import { type Benchmark, type BenchmarkOptions, type Figure, percentile } from './support/figures.ts'
import { type FloodKind, flood } from './support/flood.ts'
import { modelName, startModel } from './support/model.ts'
import { AGENT_ACTIVITY, SEND_MESSAGE, VIEWER } from './support/operations.ts'
import { createRoom, createSpaceWith, type Room, residentMebibytesOf, type Stack, startStack } from './support/stack.ts'

const SECONDS = 20
const FLOODS: Record<FloodKind, string> = {
  queries: '8 heavy queries at a time',
  socket: '300 heavy queries at a time on one socket',
  subscriptions: '20 heavy subscriptions, and messages',
  viewerEvents: '500 viewerEvents, and messages',
  messages: '400 messages to the shared agent',
  documents: '8 documents at a time that are long to refuse',
}
/** The interval between the other human's requests, well below that human's rate limit. */
const EVERY_MS = 50
const QUESTION_EVERY_MS = 4000
const IDLE_SECONDS = 5
const CALM_MS = 15_000
/** The number of messages that the heavy queries read. */
const SEEDED = 100
/** A model whose runs take one second. */
const MODEL = modelName(20, 50)

export const attacked: Benchmark = {
  question: `How much slower is the server for another human while one client sends as much as the server allows for ${SECONDS} s, with the default rate limits?`,
  mostMinutes: 6,
  async run(options) {
    const [postgres, redis, model] = await Promise.all([startThrowawayPostgres(), startThrowawayRedis(), startModel()])
    const settings = { DATABASE_URL: postgres.url, REDIS_URL: redis.url, ...RATES }
    const stack = await startStack('embedded', model, settings)
    const figures = await measure(stack, options)
    await stack.stop()
    await Promise.all([model.stop(), postgres.dispose(), redis.dispose()])
    return figures
  },
}

/** The server runs with its default limits. */
const RATES = { PARLEY_RATE_MESSAGES: '', PARLEY_RATE_TRIGGERS: '', PARLEY_RATE_REQUESTS: '' }

async function measure(stack: Stack, { quick }: BenchmarkOptions): Promise<Figure[]> {
  const victim = await createRoom(stack, MODEL)
  await watched(victim, IDLE_SECONDS)
  const memoryBefore = await memoryOf(stack)
  const idle = percentile((await watched(victim, IDLE_SECONDS)).took, 0.5)
  const bound = { atMost: Number((5 * idle).toFixed(1)) }
  const figures: Figure[] = [{ what: 'idle: viewer query, p50', value: idle, unit: 'ms' }]
  for (const kind of Object.keys(FLOODS) as FloodKind[]) {
    const attacker = await attackerBeside(stack, victim)
    const seconds = quick ? SECONDS / 4 : SECONDS
    const [{ sent, served }, { took, begun }] = await Promise.all([
      flood({ origin: stack.parley.origin, ...attacker, seconds, kind }),
      watched(victim, seconds),
    ])
    const what = FLOODS[kind]
    figures.push(
      { what: `${what}: viewer query, p50`, value: percentile(took, 0.5), unit: 'ms', bound },
      { what: `${what}: viewer query, slowest`, value: Math.max(...took), unit: 'ms' },
      { what: `${what}: a question begins within`, value: Math.max(...begun), unit: 'ms', bound: { atMost: 2000 } },
      { what: `${what}: asked for / served`, value: sent, unit: `/ ${served}` },
    )
  }
  await new Promise((resolve) => setTimeout(resolve, CALM_MS))
  const memory = await memoryOf(stack)
  await victim.human.close()
  return [
    ...figures,
    { what: 'memory of the process before, its garbage collected', value: memoryBefore.resident, unit: 'MiB' },
    { what: 'memory of the process, 15 s after all, its garbage collected', value: memory.resident, unit: 'MiB' },
    {
      what: 'heap in use after all, more than before',
      value: memory.heap - memoryBefore.heap,
      unit: 'MiB',
      bound: { atMost: 50 },
    },
  ]
}

interface Attacker {
  token: string
  spaceId: string
  agentSpaceId: string
}

/** Creates another human with a large space to read and a space with the shared agent. */
async function attackerBeside(stack: Stack, { agentIds }: Room): Promise<Attacker> {
  const { human, token, spaceId } = await createRoom(stack, null)
  for (let n = 0; n < SEEDED; n++) await human.send(SEND_MESSAGE, { spaceId, text: `Message ${n} of a hundred.` })
  const agentSpaceId = await createSpaceWith(human, agentIds)
  await human.close()
  return { token, spaceId, agentSpaceId }
}

/** Returns the duration of each small query of the other human, and of each wait for the agent to start on a question, in ms. */
async function watched({ human, spaceId }: Room, seconds: number): Promise<{ took: number[]; begun: number[] }> {
  const until = performance.now() + seconds * 1000
  const [took, begun]: [number[], number[]] = [[], []]
  async function query(): Promise<void> {
    while (performance.now() < until) {
      const startedAt = performance.now()
      await human.send(VIEWER, {})
      took.push(performance.now() - startedAt)
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS))
    }
  }
  async function question(): Promise<void> {
    for (let at = performance.now() + 1000; at < until; at += QUESTION_EVERY_MS) {
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, at - performance.now())))
      begun.push(await beginning(human, spaceId))
    }
  }
  await Promise.all([query(), question()])
  return { took, begun }
}

async function beginning(human: Room['human'], spaceId: string): Promise<number> {
  const activity = human.subscribe(AGENT_ACTIVITY, { spaceId })
  const known = new Set((await activity.first(() => true)).agentActivity?.runs.map(({ id }) => id))
  const startedAt = performance.now()
  await human.send(SEND_MESSAGE, { spaceId, text: 'Are you there?' })
  await activity.first(
    ({ agentActivity }) =>
      agentActivity?.runs.some(({ id, status }) => status === 'RUNNING' && !known.has(id)) ?? false,
  )
  const took = performance.now() - startedAt
  activity.stop()
  return took
}

async function memoryOf({ parley }: Stack): Promise<{ resident: number; heap: number }> {
  await collectGarbageOf(parley.pid)
  const text = await (await fetch(`${parley.origin}/metrics`)).text()
  const heap = Number(/^nodejs_heap_size_used_bytes (\S+)/m.exec(text)?.[1])
  return { resident: await residentMebibytesOf(parley.pid), heap: heap / 2 ** 20 }
}
