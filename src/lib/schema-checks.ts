import { createHash } from 'node:crypto'
import { once } from 'node:events'
import path from 'node:path'
import { Worker } from 'node:worker_threads'
import { LRUCache } from 'lru-cache'
import { sleep } from './async.ts'
import { messageOf } from './errors.ts'
import { createFairQueue, type Requester } from './fair-queue.ts'
import { isObject, type Json, type JsonObject, jsonBytes } from './json.ts'
import * as here from './json-schema.ts'
import type { SchemaQuestion } from './schema-thread.ts'
import { LARGEST_JSON_BYTES } from './validate.ts'

/** The CPU time that a check may use, including compilation, independent of the machine's load. */
const LONGEST_CHECK_MS = 500
/** The elapsed time that a check may take in any case. */
const LONGEST_WAIT_MS = 10_000
/** How long a requester's check is not repeated after it was slow. */
const PAUSE_MS = 60_000
const TOO_SLOW = 'The check against the schema took too long'
/** The maximum number of waiting checks per requester. Each can have up to 256 KiB of input. */
const MOST_WAITING = 20

/**
 * Returns a sentence that says why an untrusted schema cannot be a tool's input schema; null if it is accepted. Works
 * like `checkInputSchema` of json-schema.ts, but in a thread that is terminated if the check takes too long.
 *
 * All checks of untrusted schemas throw RateLimitedError if too many checks of the same requester are waiting, unless
 * the requester is patient.
 */
export async function checkInputSchema(schema: unknown, requester: Requester): Promise<string | null> {
  return checkSchemaItself({ schema: JSON.stringify(schema) ?? 'null', of: 'input' }, requester)
}

/** Like `checkInputSchema`, but for the schema of a call's result. It can be any JSON Schema that compiles. */
export async function checkSchema(schema: unknown, requester: Requester): Promise<string | null> {
  return checkSchemaItself({ schema: JSON.stringify(schema) ?? 'null', of: 'result' }, requester)
}

/** Validates a result against an untrusted schema. Returns the error; null if the result is valid. */
export async function checkJson(schema: JsonObject, value: unknown, requester: Requester): Promise<string | null> {
  return checkValue({ schema: JSON.stringify(schema), of: 'result', value }, requester)
}

/** A tool whose inputs are checked. */
interface CheckedTool {
  inputSchema: JsonObject
  /** Whether the schema is untrusted, so that a check may take a long time. */
  isForeign?: boolean
}

/**
 * Returns the error in a tool's input, as text for the model, or null if the input is valid. Untrusted schemas are
 * checked in the worker thread.
 */
export async function checkInput(
  { inputSchema, isForeign }: CheckedTool,
  input: unknown,
  requester: Requester,
): Promise<string | null> {
  if (isForeign !== true) return checkOurs(inputSchema, input)
  if (jsonBytes(input) > LARGEST_JSON_BYTES) return 'The input is larger than 256 KiB: send less.'
  return checkValue({ schema: JSON.stringify(inputSchema), of: 'input', value: input }, requester)
}

/** Like `checkInput`, for a built-in tool, whose schema is trusted and fast to check. */
export function checkOurs(inputSchema: JsonObject, input: unknown): string | null {
  return here.checkInput(inputSchema, input, { isOurs: true })
}

/**
 * Removes nulls of optional properties, which many models generate for omitted values. An input that is valid with its
 * nulls is returned unchanged.
 */
export async function withoutNulls(tool: CheckedTool, input: Json, requester: Requester): Promise<Json> {
  if (!hasNull(input) || (await checkInput(tool, input, requester)) === null) return input
  return dropNulls(tool.inputSchema, input)
}

/** Like `withoutNulls`, for a built-in tool. */
export function withoutOurNulls(inputSchema: JsonObject, input: Json): Json {
  if (!hasNull(input) || checkOurs(inputSchema, input) === null) return input
  return dropNulls(inputSchema, input)
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

/**
 * The checks that took too long, by requester and schema. The value is the size in bytes of the smallest input that was
 * too slow.
 */
const slow = new LRUCache<string, number>({ max: 10_000, ttl: PAUSE_MS })

/** The results of checking the schemas themselves. They never change, and each run needs them again. */
const verdicts = new LRUCache<string, { fault: string | null }>({ max: 2_000 })

let thread: Promise<Worker> | null = null

/** The thread handles one request at a time. A request's time limit starts when its turn comes. */
const queue = createFairQueue({
  mostWaiting: MOST_WAITING,
  refusal: `Too many of your inputs and results (${MOST_WAITING}) are waiting to be checked against a schema. Wait, then try again.`,
})

async function checkSchemaItself(question: SchemaQuestion, requester: Requester): Promise<string | null> {
  const key = `${question.of} ${digestOf(question.schema)}`
  const known = verdicts.get(key)
  if (known !== undefined) return known.fault
  const answer = await ask(question, requester)
  if (answer.type === 'answered') verdicts.set(key, answer)
  return wordsOf(answer)
}

async function checkValue(question: SchemaQuestion & { value: unknown }, requester: Requester): Promise<string | null> {
  return wordsOf(await ask(question, requester))
}

type Answer =
  | { type: 'answered'; fault: string | null }
  /** The check itself took too long. */
  | { type: 'slow' }
  /** The check failed for another reason. */
  | { type: 'broken'; reason: string }

function wordsOf(answer: Answer): string | null {
  if (answer.type === 'answered') return answer.fault
  return answer.type === 'slow'
    ? `${TOO_SLOW}.`
    : `The value could not be checked against its schema: ${answer.reason}.`
}

async function ask(question: SchemaQuestion, requester: Requester): Promise<Answer> {
  const key = `${requester.id} ${digestOf(question.schema)}`
  const bytes = 'value' in question ? jsonBytes(question.value) : 0
  const work = async (): Promise<Answer> => {
    if (isPaused(key, bytes)) return { type: 'slow' }
    const answer = await askThread(question)
    if (answer.type === 'slow') slow.set(key, bytes)
    return answer
  }
  return isPaused(key, bytes) ? { type: 'slow' } : queue.run(requester, work)
}

/**
 * Whether a check is skipped because a similar one was slow. Much smaller values are still checked. Each slow check
 * halves the size limit, so there are only a few slow checks.
 */
function isPaused(key: string, bytes: number): boolean {
  const slowBytes = slow.get(key)
  return slowBytes !== undefined && 2 * bytes >= slowBytes
}

const digestOf = (text: string) => createHash('sha256').update(text).digest('base64url')

/** Sends a question to the thread. The promise never rejects. */
async function askThread(question: SchemaQuestion): Promise<Answer> {
  const deadline = new AbortController()
  const over = new AbortController()
  let isSlow = false
  try {
    thread ??= startThread()
    const worker = await thread
    worker.ref()
    const usedMs = await stopwatchOf(worker)
    const answered = once(worker, 'message', { signal: deadline.signal })
    worker.postMessage(question)
    void watch(usedMs, over.signal).then((hasUsedItsTime) => {
      isSlow = hasUsedItsTime
      deadline.abort()
    })
    const [fault] = await answered
    worker.unref()
    return { type: 'answered', fault: fault as string | null }
  } catch (error) {
    void thread?.then((worker) => worker.terminate()).catch(() => {})
    thread = null
    if (!deadline.signal.aborted) return { type: 'broken', reason: messageOf(error) }
    return isSlow ? { type: 'slow' } : { type: 'broken', reason: 'the server is too busy' }
  } finally {
    over.abort()
  }
}

/**
 * Starts measuring how long a thread computes. Node before 24.6 does not report the CPU time of a thread. On these
 * versions, the result is the time in which the thread's event loop was busy, which is slightly longer on a busy
 * machine.
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

/**
 * Resolves when a check has used up its time, or has finished. Returns true if the check used the CPU time itself, and
 * false if the machine was too busy.
 */
async function watch(readUsedMs: () => Promise<number>, over: AbortSignal): Promise<boolean> {
  const since = performance.now()
  let usedMs = 0
  while (usedMs < LONGEST_CHECK_MS && performance.now() - since < LONGEST_WAIT_MS) {
    await sleep(LONGEST_CHECK_MS - usedMs, over)
    if (over.aborted) return false
    // A thread that does not report its CPU time is terminated.
    const used = await Promise.race([readUsedMs().catch(() => null), sleep(LONGEST_WAIT_MS, over)])
    usedMs = used ?? LONGEST_CHECK_MS
  }
  // Gives this thread a chance to receive a result that arrived while it was busy.
  await new Promise((resolve) => setImmediate(resolve))
  return usedMs >= LONGEST_CHECK_MS
}

/** Starts the thread with a memory limit that is enough for a few schemas. The thread ends with this process. */
async function startThread(): Promise<Worker> {
  const worker = new Worker(new URL(`./schema-thread${path.extname(import.meta.url)}`, import.meta.url), {
    execArgv: ['--disable-warning=ExperimentalWarning'],
    resourceLimits: { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16 },
  })
  // The pending request fails without further handling, and the next request starts a new thread.
  worker.on('error', () => {
    thread = null
  })
  await once(worker, 'message')
  worker.unref()
  return worker
}
