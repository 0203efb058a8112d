import { fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import type { Subscribing } from './fanout-server.ts'

export type ClientsOrder =
  | { type: 'subscribe'; subscribing: Subscribing; count: number }
  | { type: 'expect'; messages: number; withDelays: boolean }

export interface ClientsResult {
  bytesOfEach: number
  endedAt: number
  /** From publishing to arrival in ms, by message. */
  delays: number[]
}

/** Subscribers in a process of their own. */
export interface FanoutClients {
  subscribe(subscribing: Subscribing, count: number): Promise<void>
  /** Counts from now on; resolves with what resolves once that many messages have come in all. */
  expect(messages: number, withDelays: boolean): Promise<{ all: Promise<ClientsResult> }>
  stop(): void
}

export function startFanoutClients(): FanoutClients {
  const child = fork(path.join(import.meta.dirname, 'fanout-clients-process.ts'), { serialization: 'advanced' })
  const next = async () => (await once(child, 'message'))[0]
  const ask = async (order: ClientsOrder) => {
    const ready = next()
    child.send(order)
    await ready
  }
  return {
    subscribe: (subscribing, count) => ask({ type: 'subscribe', subscribing, count }),
    async expect(messages, withDelays) {
      await ask({ type: 'expect', messages, withDelays })
      return { all: next() as Promise<ClientsResult> }
    },
    stop: () => void child.kill('SIGKILL'),
  }
}
