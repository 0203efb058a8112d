import { fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { now } from './model.ts'

/** How one subscribes at a server. */
export interface Subscribing {
  url: string
  authorization: string | null
  /** Absent for plain `ws`, where being connected is enough. */
  query?: string
  variables?: Record<string, unknown>
}

/** What a server's process is told, and what it answers each time: its use of CPU (s) and memory (MiB) so far. */
export type ServerOrder =
  | { type: 'publish'; events: number; everyMs: number }
  | { type: 'write'; agents: number; tokens: number; everyMs: number }
  | { type: 'usage' }
export interface ServerUsage {
  cpuSeconds: number
  residentMebibytes: number
}

export type SystemName = 'ws' | 'yoga' | 'parley-embedded' | 'parley-redis'

/** What one system does for some number of subscribers. */
export interface Measured {
  system: SystemName
  subscribers: number
  messagesASecond: number
  microsecondsOfCpu: number
  p50: number
  p99: number
  kibibytesOfSubscriber: number
  bytesOfMessage: number
}

/** A system under test, in a process of its own. */
export interface FanoutServer {
  /** One for each space that it publishes in, turn by turn. */
  subscribings: Subscribing[]
  pid: number
  ask(order: ServerOrder): Promise<ServerUsage>
  stop(): Promise<void>
}

/** The text of an event: when it was published, and what makes the message some 220 bytes. */
export function textNow(): string {
  return `${now().toFixed(3)}|${'x'.repeat(20)}`
}

/** `spaces` is for Parley alone: how many it publishes in. */
export async function startFanoutServer(system: SystemName, spaces = 1): Promise<FanoutServer> {
  const [file = '', ...args] = system.split('-')
  const child = fork(path.join(import.meta.dirname, `fanout-${file}-process.ts`), [...args, String(spaces)])
  const [subscribings] = (await once(child, 'message')) as [Subscribing[]]
  return {
    subscribings,
    pid: child.pid ?? 0,
    async ask(order) {
      child.send(order)
      const [usage] = (await once(child, 'message')) as [ServerUsage]
      return usage
    },
    async stop() {
      const ended = once(child, 'exit')
      child.kill()
      await ended
    },
  }
}

/** In a server's process: answers orders by publishing one event after the other, or as several agents that write at once. */
export function serveFanout(
  subscribings: Subscribing[],
  publish: (text: string, n: number) => Promise<unknown>,
  write: (order: ServerOrder & { type: 'write' }) => Promise<unknown> = async () => {},
): void {
  process.on('message', async (order: ServerOrder) => {
    if (order.type === 'publish') {
      const startedAt = now()
      for (let n = 0; n < order.events; n++) {
        const wait = startedAt + n * order.everyMs - now()
        await new Promise((resolve) => (wait > 0 ? setTimeout(resolve, wait) : setImmediate(resolve)))
        await publish(textNow(), n)
      }
    }
    if (order.type === 'write') await write(order)
    const { user, system } = process.cpuUsage()
    const usage: ServerUsage = {
      cpuSeconds: (user + system) / 1e6,
      residentMebibytes: process.memoryUsage.rss() / 1024 / 1024,
    }
    process.send?.(usage)
  })
  process.send?.(subscribings)
}
