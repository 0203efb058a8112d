import { type Benchmark, type Figure, percentile } from './support/figures.ts'
import { type Model, modelName, now, startModel } from './support/model.ts'
import { runRawLoops } from './support/raw-loops.ts'
import { type Backing, createRoom, startStack } from './support/stack.ts'
import { say, watchRoom } from './support/watch.ts'

const MESSAGES = 200
const WARM_UP = 20
const MODEL = modelName(3, 0)

/**
 * Measures the milliseconds from sendMessage to the first delta at a subscriber, without the model's own time, one run at a
 * time.
 */
async function measure(backing: Backing, model: Model): Promise<number[]> {
  const stack = await startStack(backing, model)
  const room = await createRoom(stack, MODEL)
  const watch = await watchRoom(room)
  const delays: number[] = []
  for (let count = 1; count <= WARM_UP + MESSAGES; count++) {
    const firstDelta = watch.expectDelta()
    const sentAt = now()
    await say(room)
    const total = (await firstDelta) - sentAt
    await watch.finished(count)
    const [generation] = await model.generations()
    if (generation === undefined) throw new Error('the model was not asked')
    const modelMs = (generation.sentAt[0] ?? 0) - generation.arrivedAt
    if (count > WARM_UP) delays.push(total - modelMs)
  }
  watch.stop()
  await room.human.close()
  await stack.stop()
  return delays
}

export const firstDelta: Benchmark = {
  question:
    'How long does it take from `sendMessage` to the first delta at a subscriber, without the model’s own time?',
  async run() {
    const model = await startModel()
    const postgres = await measure('PostgreSQL and Redis', model)
    const embedded = await measure('embedded', model)
    const raw = await runRawLoops({ baseUrl: model.baseUrl, model: MODEL, loops: MESSAGES, atOnce: 1 })
    await model.stop()
    const figures: Figure[] = [
      { what: 'p50, PostgreSQL and Redis', value: percentile(postgres, 0.5), unit: 'ms', bound: { atMost: 12 } },
      { what: 'p95, PostgreSQL and Redis', value: percentile(postgres, 0.95), unit: 'ms' },
      { what: 'p50, embedded', value: percentile(embedded, 0.5), unit: 'ms', bound: { atMost: 20 } },
      { what: 'p95, embedded', value: percentile(embedded, 0.95), unit: 'ms' },
      { what: '`streamText` alone, call to first delta, p50', value: percentile(raw.firstDeltaMs, 0.5), unit: 'ms' },
      { what: 'LangGraph.js server', value: 26, unit: 'ms', source: 'issue 2' },
      { what: 'Mastra, which stores nothing', value: 3.6, unit: 'ms', source: 'issue 2' },
    ]
    return figures
  },
}
