import { fork } from 'node:child_process'
import path from 'node:path'
import { nextOf, type Subscribing } from './fanout-server.ts'

export type ClientsOrder =
  | { type: 'open'; subscribings: Subscribing[]; marked: number }
  | { type: 'begin' }
  | { type: 'await'; messages: number; timeoutMs: number }
  | { type: 'close' }

export interface ClientsResult {
  /** The number of messages of all viewers since `begin`. */
  received: number
  bytes: number
  /** The index of each marked viewer, and when each of its messages arrived, by `now()`. */
  arrivals: { viewer: number; at: number[] }[]
  /** Viewers that the server has closed. */
  closed: number
}

/**
 * Viewers in a separate process, each with its own socket and with a small operation id, as real clients use them: 1, 2, …, 20.
 */
export interface FanoutClients {
  /** Opens the viewers. Resolves when each has its first result. `marked` of them record the arrival times of messages. */
  open(subscribings: Subscribing[], marked: number): Promise<void>
  begin(): Promise<void>
  /** Resolves when that many messages have arrived in total since `begin`, or at the timeout. */
  all(messages: number, timeoutMs: number): Promise<ClientsResult>
  close(): Promise<void>
  stop(): void
}

export function startFanoutClients(): FanoutClients {
  const child = fork(path.join(import.meta.dirname, 'fanout-clients-process.ts'), { serialization: 'advanced' })
  async function ask(order: ClientsOrder): Promise<ClientsResult> {
    child.send(order)
    return (await nextOf(child)) as ClientsResult
  }
  return {
    async open(subscribings, marked) {
      await ask({ type: 'open', subscribings, marked })
    },
    async begin() {
      await ask({ type: 'begin' })
    },
    all: (messages, timeoutMs) => ask({ type: 'await', messages, timeoutMs }),
    async close() {
      await ask({ type: 'close' })
    },
    stop: () => void child.kill('SIGKILL'),
  }
}
