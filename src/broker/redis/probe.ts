import { randomBytes } from 'node:crypto'
import { createDeferred } from '../../lib/async.ts'
import { newEpoch } from '../cursor.ts'
import type { RedisChannels } from './channels.ts'
import { type RedisConnection, withTimeout } from './connection.ts'
import { readDrafts } from './drafts.ts'
import type { ChannelRoutes } from './routes.ts'
import { encodeBatch, type Keys, type Operation, parseResults, type ScriptedRedis } from './scripts.ts'

/** Sends test events through Redis and back to this process. In a cluster, it uses one topic on each master. */
export interface Probe {
  /** Tries every command that the event log and the signals use. @throws the first error of Redis */
  tryAll(timeoutMs: number): Promise<void>
  /** Whether a test event is written, received and read within `timeoutMs`. `tryAll` must have been called before. */
  passes(timeoutMs: number): Promise<boolean>
}

export interface ProbeParts {
  connection: RedisConnection
  redis: ScriptedRedis
  keys: Keys
  channels: RedisChannels
  routes: ChannelRoutes
  prefix: string
  /** The name of a topic's wake-up channel, without the prefix. */
  wakeUpNameOf(topic: string): string
}

/** Candidates for the names of probe topics. There are enough to find one for each master of a typical cluster. */
const NAMES = Array.from({ length: 200 }, (_, index) => `probe:${index}`)
const MESSAGE_ID = 'probe'
/** If this process dies, the keys of its probe expire after this time. */
const KEPT_MS = 60_000

const EVENT: Operation = {
  type: 'event',
  json: JSON.stringify({ type: 'Probe' }),
  unlessSealed: undefined,
  once: undefined,
  ordinal: undefined,
}
const EXPIRE: Operation = { type: 'expire', ms: KEPT_MS }
const DELTA = { messageId: MESSAGE_ID, partIndex: 0, offset: 0, delta: 'probe' }
const ALL_OPERATIONS: readonly Operation[] = [
  { ...EVENT, unlessSealed: 'probe', once: 'probe', ordinal: 1 },
  { type: 'text', delta: DELTA, whole: () => DELTA.delta, unlessSealed: undefined, replaces: false },
  { type: 'finish', messageId: MESSAGE_ID },
  { type: 'seal', seal: 'probe' },
  EXPIRE,
]

export function createProbe(parts: ProbeParts): Probe {
  const { connection, redis, keys, channels, routes, prefix, wakeUpNameOf } = parts
  const writer = randomBytes(6).toString('hex')
  /** The batches whose wake-up message has not arrived yet, each with the function to call when it arrives. */
  const awaited = new Map<string, () => void>()
  let topics: string[] = []
  let count = 0
  /** The probe in progress, which concurrent callers share. */
  let current: Promise<boolean> | null = null

  /** Returns topics whose channels use different connections. */
  function chooseTopics(): string[] {
    const names = NAMES.map((name) => `${name}.${writer}.${count}`)
    const byConnection = new Map(names.map((name) => [routes.connectionOf(prefix + wakeUpNameOf(name)), name]))
    byConnection.delete(null)
    return [...byConnection.values()]
  }

  async function subscribe(topic: string): Promise<void> {
    const name = wakeUpNameOf(topic)
    const subscriber = routes.connectionOf(prefix + name)
    // `channels.subscribe` never fails, because it retries refused subscriptions forever.
    await (routes.isSharded ? subscriber?.ssubscribe(prefix + name) : subscriber?.subscribe(prefix + name))
    await channels.subscribe(name, (message) => {
      const { batch = '' } = message as { batch?: string }
      awaited.get(batch)?.()
    })
  }

  /**
   * Writes the operations to a topic and returns the keys that were used.
   * @throws if Redis does not execute the operations, or if their events cannot be read and received
   */
  async function pass(topic: string, operations: readonly Operation[], timeoutMs: number): Promise<string[]> {
    count += 1
    const batch = `${writer}.${count}`
    const { promise: received, resolve } = createDeferred<void>()
    awaited.set(batch, resolve)
    const wakeUpChannel = prefix + wakeUpNameOf(topic)
    const head = { topic, writer, number: count, wakeUpChannel, known: null, startsAnew: false }
    const encoded = encodeBatch({ ...head, operations }, keys)
    try {
      const answer = await redis.logWrite(encoded.keys.length, ...encoded.keys, ...encoded.args)
      const { epoch, last } = parseResults(answer)
      const [, , lastBatch] = await redis.logRead(...keys.topic(topic), newEpoch(), epoch, last ?? 0, 1, batch)
      if (lastBatch !== batch) throw new Error('it does not return the data that was written')
      await withTimeout(received, timeoutMs, NOT_RECEIVED)
      return encoded.keys
    } finally {
      awaited.delete(batch)
    }
  }

  async function tryAllOn(topic: string, timeoutMs: number): Promise<void> {
    await subscribe(topic)
    await channels.publish(wakeUpNameOf(topic), {})
    const text = channels.textFor(wakeUpNameOf(topic), {})
    const signal: Operation[] = text === null ? [] : [{ type: 'signal', ...text }]
    const used = await pass(topic, [...ALL_OPERATIONS, ...signal], timeoutMs)
    await readDrafts({ connection, redis, keys }, topic, [MESSAGE_ID])
    // Without free memory, Redis refuses a script only if the script's first write would add data. This is the case on
    // the second pass, when the topic exists.
    await pass(topic, [EVENT, EXPIRE], timeoutMs)
    await redis.del(used)
  }

  async function passOnAll(timeoutMs: number): Promise<boolean> {
    const passing = topics.map((topic) => pass(topic, [EVENT, EXPIRE], timeoutMs))
    return (await Promise.allSettled(passing)).every(({ status }) => status === 'fulfilled')
  }

  return {
    async tryAll(timeoutMs) {
      // If a node of a cluster was configured as a single server, these commands fail, because the node refuses the
      // keys of other nodes.
      if (!routes.isSharded) await Promise.all(NAMES.map((name) => redis.exists(keys.topic(name)[0])))
      topics = chooseTopics()
      for (const topic of topics) await withTimeout(tryAllOn(topic, timeoutMs), timeoutMs)
    },
    async passes(timeoutMs) {
      current ??= passOnAll(timeoutMs).finally(() => {
        current = null
      })
      return withTimeout(current, timeoutMs).catch(() => false)
    },
  }
}

const NOT_RECEIVED = 'published messages do not arrive'
