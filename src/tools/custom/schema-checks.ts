import { once } from 'node:events'
import path from 'node:path'
import { Worker } from 'node:worker_threads'
import { LRUCache } from 'lru-cache'
import { sleep } from '../../lib/async.ts'
import { messageOf } from '../../lib/errors.ts'
import { type Json, type JsonObject, jsonBytes } from '../../lib/json.ts'
import { LARGEST_JSON_BYTES } from '../../lib/validate.ts'
import type { Tool } from '../tool.ts'
import * as here from './json-schema.ts'
import type { SchemaQuestion } from './schema-thread.ts'

/** What one check may take of the thread's own time, compiling included: a machine that has much else to do is not the schema's fault. */
const LONGEST_CHECK_MS = 500
/** What it may take whoever is to blame. */
const LONGEST_WAIT_MS = 10_000
/** A schema whose check took longer is not tried again for so long, or who wrote it would have a thread for themselves. */
const REST_MS = 60_000
const TOO_SLOW = 'To check this against the input schema takes too long'

/**
 * Why a schema that somebody wrote cannot be a tool's input schema, in a sentence; null where it can: as `checkInputSchema` of
 * json-schema.ts, in a thread of its own that is ended where that takes too long.
 */
export async function checkInputSchema(schema: unknown): Promise<string | null> {
  return ask({ schema: JSON.stringify(schema) ?? 'null', of: 'input' })
}

/** The same of a schema of what is submitted as a call's result: any JSON Schema that compiles. */
export async function checkSchema(schema: unknown): Promise<string | null> {
  return ask({ schema: JSON.stringify(schema) ?? 'null', of: 'result' })
}

/** What is wrong with a result, by the schema that somebody wrote for it; null where nothing is. */
export async function checkJson(schema: JsonObject, value: unknown): Promise<string | null> {
  return ask({ schema: JSON.stringify(schema), of: 'result', value })
}

type Checked = Pick<Tool, 'inputSchema' | 'isForeign'>

/** What is wrong with a tool's input, in words for the model; null where nothing is. What others wrote is checked in that thread. */
export async function checkInput({ inputSchema, isForeign }: Checked, input: unknown): Promise<string | null> {
  if (isForeign !== true) return here.checkInput(inputSchema, input, { isOurs: true })
  if (jsonBytes(input) > LARGEST_JSON_BYTES) return 'The input is larger than 256 KiB: send less.'
  return ask({ schema: JSON.stringify(inputSchema), of: 'input', value: input })
}

/**
 * An input in which a null stands for what was left out, as many models write it: without the nulls of optional properties.
 * One that the schema takes as it is means its nulls, and stays.
 */
export async function withoutNulls(tool: Checked, input: Json): Promise<Json> {
  if (!hasNull(input) || (await checkInput(tool, input)) === null) return input
  return dropNulls(tool.inputSchema, input)
}

const hasNull = (value: Json): boolean =>
  value === null || (typeof value === 'object' && Object.values(value).some(hasNull))

function dropNulls(schema: Json | undefined, value: Json): Json {
  if (!isObject(schema)) return value
  if (Array.isArray(value)) return value.map((item) => dropNulls(schema['items'], item))
  if (!isObject(value)) return value
  const required = Array.isArray(schema['required']) ? schema['required'] : []
  const properties = isObject(schema['properties']) ? schema['properties'] : {}
  const kept = Object.entries(value).filter(([name, one]) => one !== null || required.includes(name))
  return Object.fromEntries(kept.map(([name, one]) => [name, dropNulls(properties[name], one)]))
}

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Schemas that took too long, by their text. */
const slow = new LRUCache<string, true>({ max: 100, ttl: REST_MS })

let thread: Promise<Worker> | null = null
/** One question at a time: the next one begins, and its time too, when this one has its answer. */
let turn: Promise<unknown> = Promise.resolve()

function ask(question: SchemaQuestion): Promise<string | null> {
  const answer = turn.then(() => (slow.has(question.schema) ? `${TOO_SLOW}.` : askThread(question)))
  turn = answer
  return answer
}

/** Never rejects. */
async function askThread(question: SchemaQuestion): Promise<string | null> {
  const deadline = new AbortController()
  const over = new AbortController()
  try {
    thread ??= startThread()
    const worker = await thread
    worker.ref()
    const usedMs = await stopwatchOf(worker)
    const answered = once(worker, 'message', { signal: deadline.signal })
    worker.postMessage(question)
    void watch(usedMs, over.signal).then(() => deadline.abort())
    const [answer] = await answered
    worker.unref()
    return answer as string | null
  } catch (error) {
    void thread?.then((worker) => worker.terminate()).catch(() => {})
    thread = null
    if (deadline.signal.aborted) slow.set(question.schema, true)
    return deadline.signal.aborted ? `${TOO_SLOW}.` : `This could not be checked: ${messageOf(error)}.`
  } finally {
    over.abort()
  }
}

/**
 * Starts measuring how long a thread computes. Node before 24.6 does not report the CPU time of a thread: there it is the time in which
 * the thread's event loop is busy, which on a machine that is too busy itself is a little longer.
 */
async function stopwatchOf(worker: Worker): Promise<() => Promise<number>> {
  const reportsCpu = typeof (worker as Partial<Worker>).cpuUsage === 'function'
  if (reportsCpu) {
    const before = await worker.cpuUsage()
    return async () => {
      const { user, system } = await worker.cpuUsage(before)
      return (user + system) / 1000
    }
  }
  const before = worker.performance.eventLoopUtilization()
  return async () => worker.performance.eventLoopUtilization(before).active
}

/** Resolves when a check has had its time, or is over. */
async function watch(readUsedMs: () => Promise<number>, over: AbortSignal): Promise<void> {
  const since = performance.now()
  for (let usedMs = 0; usedMs < LONGEST_CHECK_MS && performance.now() - since < LONGEST_WAIT_MS; ) {
    await sleep(LONGEST_CHECK_MS - usedMs, over)
    if (over.aborted) return
    // A thread that does not even say is cut off.
    const used = await Promise.race([readUsedMs().catch(() => null), sleep(LONGEST_WAIT_MS, over)])
    usedMs = used ?? LONGEST_CHECK_MS
  }
  // An answer that came while this thread was busy is heard first.
  await new Promise((resolve) => setImmediate(resolve))
}

/** Ends with whoever started it, and takes no more memory than a few schemas need. */
async function startThread(): Promise<Worker> {
  const worker = new Worker(new URL(`./schema-thread${path.extname(import.meta.url)}`, import.meta.url), {
    execArgv: ['--disable-warning=ExperimentalWarning'],
    resourceLimits: { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16 },
  })
  // Heard by who waits for its answer; where nobody does, the next one starts another.
  worker.on('error', () => {
    thread = null
  })
  await once(worker, 'message')
  worker.unref()
  return worker
}
