import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { now } from './model.ts'

/** One subscription to a server, and how to open it. */
export interface Subscribing {
  url: string
  authorization: string | null
  /** Absent for plain `ws`, where a connection is enough. */
  query?: string
  variables?: Record<string, unknown>
}

/** The kind of event: a piece of text, a visible tool call, or a message that is read with the viewer's own `unreadCount`. */
export type Payload = 'deltas' | 'toolCalls' | 'unread'

/** The viewers, evenly distributed over the spaces. */
export interface Load {
  viewers: number
  spaces: number
  payload: Payload
}

/**
 * How events enter a system: through the event log in Redis, as another Parley process appends them, or through Redis pub/sub.
 */
export interface Feed {
  type: 'log' | 'channels'
  /** Whether events are also stored in a Redis stream, as any log would do. Only for channels. */
  keeps?: boolean
  redisUrl: string
  prefix: string
  /** The topic or channel of each space. */
  names: string[]
  /** The event for each payload. The publisher adds the `delta` to the event of a delta. */
  events: Partial<Record<Payload, object>>
}

/** The message that a server's process sends to its parent once it listens. */
export interface Greeting {
  feed: Feed | null
  /** One subscription for each space, all of the same viewer. */
  subscribings: Subscribing[]
}

/** The commands to a server's process. Each returns the usage so far, except `viewers`, which returns subscriptions. */
export type ServerOrder =
  | { type: 'publish'; events: number; everyMs: number }
  | { type: 'write'; agents: number; tokens: number; everyMs: number }
  | { type: 'usage'; collect?: boolean }
  | { type: 'viewers'; load: Load }

export interface ServerUsage {
  cpuSeconds: number
  /** The size of the heap, after garbage collection if the command requested it. */
  heapKibibytes: number
}

export type SystemName = 'ws' | 'ws-log' | 'ws-cork' | 'yoga' | 'parley-embedded' | 'parley-redis'

/** A system under test, in a separate process. */
export interface FanoutServer extends Greeting {
  pid: number
  ask(order: Exclude<ServerOrder, { type: 'viewers' }>): Promise<ServerUsage>
  /** Returns a subscription for each viewer, with a separate identity. */
  viewers(load: Load): Promise<Subscribing[]>
  stop(): Promise<void>
}

/** The text of an event: its time of publication, padded so that the message has about 220 bytes. */
export function textNow(): string {
  return `${now().toFixed(3)}|${'x'.repeat(20)}`
}

/** Starts a system. `spaces` is the number of spaces, and only Parley uses it. */
export async function startFanoutServer(system: SystemName, spaces = 1): Promise<FanoutServer> {
  const [file = '', ...args] = system.split('-')
  const child = fork(path.join(import.meta.dirname, `fanout-${file}-process.ts`), [...args, String(spaces)], {
    serialization: 'advanced',
    execArgv: ['--expose-gc'],
  })
  const greeting = (await nextOf(child)) as Greeting
  async function ask<T>(order: ServerOrder): Promise<T> {
    child.send(order)
    return (await nextOf(child)) as T
  }
  return {
    ...greeting,
    pid: child.pid ?? 0,
    ask,
    viewers: (load) => ask({ type: 'viewers', load }),
    async stop() {
      const ended = once(child, 'exit')
      child.kill()
      await ended
    },
  }
}

/** Returns the next message of a process. @throws if the process exits instead */
export async function nextOf(child: ChildProcess): Promise<unknown> {
  const over = new AbortController()
  const ended = once(child, 'exit', { signal: over.signal }).then(() => {
    throw new Error(`${child.spawnargs.at(-2)} ended`)
  })
  ended.catch(() => {})
  try {
    return (await Promise.race([once(child, 'message', { signal: over.signal }), ended]))[0]
  } finally {
    over.abort()
  }
}

/** Makes the process of a measurement exit together with its parent. */
export function endWithParent(): void {
  process.on('disconnect', () => process.exit(1))
}

export interface ServedFanout extends Greeting {
  viewers?: (load: Load) => Subscribing[] | Promise<Subscribing[]>
  /** Publishes an event within the serving process, for `crowd` and `held`. */
  publish?: (text: string, n: number) => Promise<unknown>
  write?: (order: ServerOrder & { type: 'write' }) => Promise<unknown>
}

/** Reports the address of a server to its parent, and answers commands. */
export function serveFanout({ feed, subscribings, viewers, publish, write }: ServedFanout): void {
  endWithParent()
  process.on('message', async (order: ServerOrder) => {
    if (order.type === 'viewers') {
      process.send?.(await viewers?.(order.load))
      return
    }
    if (order.type === 'publish') await publishPaced(order.events, order.everyMs, async (n) => publish?.(textNow(), n))
    if (order.type === 'write') await write?.(order)
    if (order.type === 'usage' && order.collect) for (let times = 0; times < 3; times++) globalThis.gc?.()
    const { user, system } = process.cpuUsage()
    const usage: ServerUsage = {
      cpuSeconds: (user + system) / 1e6,
      heapKibibytes: process.memoryUsage().heapUsed / 1024,
    }
    process.send?.(usage)
  })
  process.send?.({ feed, subscribings } satisfies Greeting)
}

async function publishPaced(events: number, everyMs: number, publish: (n: number) => Promise<unknown>): Promise<void> {
  const startedAt = now()
  for (let n = 0; n < events; n++) {
    const wait = startedAt + n * everyMs - now()
    await new Promise((resolve) => (wait > 0 ? setTimeout(resolve, wait) : setImmediate(resolve)))
    await publish(n)
  }
}
