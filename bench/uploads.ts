import { fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { collectGarbageOf } from '../test/support/collected-heap.ts'
import { type Benchmark, type Figure, percentile } from './support/figures.ts'
import { startModel } from './support/model.ts'
import { VIEWER } from './support/operations.ts'
import { createRoom, type Room, residentMebibytesOf, type Stack, startStack } from './support/stack.ts'
import type { UploadOrder, UploadResult } from './support/upload-process.ts'

const FILES = 20
const BYTES = 25 * 1024 * 1024
const ROUNDS = 8
const QUICK_ROUNDS = 2
const MOST_MORE_MEBIBYTES = 100
/** The requests of another human during the uploads are compared with those before the uploads. */
const MOST_SLOWER = 1.5
const EVERY_MS = 10
const IDLE_SECONDS = 20
const QUICK_IDLE_SECONDS = 5
const MEMORY_EVERY_MS = 50

export const uploads: Benchmark = {
  question: `What do ${FILES} concurrent uploads of ${BYTES / 1024 / 1024} MiB, to a directory, cost in memory, and how much slower are the requests of another human at the same time?`,
  mostMinutes: 10,
  async run({ quick }) {
    const model = await startModel()
    const settings = { PARLEY_MAX_FILE_BYTES_PER_DAY: '1000000000000' }
    const stack = await startStack('PostgreSQL and Redis', model, settings)
    const figures = await measure(stack, quick)
    await stack.stop()
    await model.stop()
    return figures
  },
}

async function measure(stack: Stack, quick: boolean): Promise<Figure[]> {
  const [watcher, uploader] = [await createRoom(stack, null), await createRoom(stack, null)]
  const child = fork(path.join(import.meta.dirname, 'support/upload-process.ts'))
  const order = { origin: stack.parley.origin, token: uploader.token, files: FILES, bytes: BYTES }
  // The first uploads are not measured, because they load code.
  await upload(child, { ...order, files: 1 })
  await queried(watcher, sleep(1000))
  const idle = await queried(watcher, sleep((quick ? QUICK_IDLE_SECONDS : IDLE_SECONDS) * 1000))
  await collectGarbageOf(stack.parley.pid)
  const before = await residentMebibytesOf(stack.parley.pid)

  const during: number[] = []
  const took: number[] = []
  let peak = before
  for (let round = 0; round < (quick ? QUICK_ROUNDS : ROUNDS); round++) {
    const uploading = upload(child, order)
    const [times, highest] = await Promise.all([queried(watcher, uploading), highestMemory(stack, uploading)])
    during.push(...times)
    peak = Math.max(peak, highest)
    const { ms, statuses } = await uploading
    const refused = statuses.filter((status) => status !== 201)
    if (refused.length > 0) throw new Error(`uploads were refused: ${refused.join()}`)
    took.push(ms)
  }
  child.kill('SIGKILL')
  await Promise.all([watcher.human.close(), uploader.human.close()])

  const calm = percentile(idle, 0.99)
  return [
    {
      what: 'memory of the process, at most more than before',
      value: peak - before,
      unit: 'MiB',
      bound: { atMost: MOST_MORE_MEBIBYTES },
    },
    { what: 'idle: viewer query, p99', value: calm, unit: 'ms' },
    {
      what: 'during the uploads: viewer query, p99',
      value: percentile(during, 0.99),
      unit: 'ms',
      bound: { atMost: calm * MOST_SLOWER },
    },
    { what: 'during the uploads: viewer query, p50', value: percentile(during, 0.5), unit: 'ms' },
    { what: 'queries measured during the uploads', value: during.length, unit: '' },
    { what: 'a round of uploads, median', value: percentile(took, 0.5), unit: 'ms' },
  ]
}

async function upload(child: ReturnType<typeof fork>, order: UploadOrder): Promise<UploadResult> {
  child.send(order)
  const [result] = (await once(child, 'message')) as [UploadResult]
  return result
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Records the duration of each small query of a human, in ms, until `end`. */
async function queried({ human }: Room, end: Promise<unknown>): Promise<number[]> {
  const times: number[] = []
  let isOver = false
  const ended = end.finally(() => {
    isOver = true
  })
  while (!isOver) {
    const began = performance.now()
    await human.send(VIEWER, {})
    times.push(performance.now() - began)
    await sleep(EVERY_MS)
  }
  await ended
  return times
}

async function highestMemory({ parley }: Stack, end: Promise<unknown>): Promise<number> {
  let [highest, isOver] = [0, false]
  const ended = end.finally(() => {
    isOver = true
  })
  while (!isOver) {
    highest = Math.max(highest, await residentMebibytesOf(parley.pid))
    await sleep(MEMORY_EVERY_MS)
  }
  await ended
  return highest
}
