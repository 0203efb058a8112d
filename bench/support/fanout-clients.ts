import { fork } from 'node:child_process'
import path from 'node:path'
import { nextOf, type Subscribing } from './fanout-server.ts'

export type ClientsOrder =
  | { type: 'open'; subscribings: Subscribing[]; marked: number }
  | { type: 'begin' }
  | { type: 'await'; messages: number; timeoutMs: number }
  | { type: 'close' }

export interface ClientsResult {
  /** Messages since `begin`, of all. */
  received: number
  bytes: number
  /** Of each marked viewer: when each of its messages came, by `now()`, and which viewer it is. */
  arrivals: { viewer: number; at: number[] }[]
  /** Viewers that the server has closed. */
  closed: number
}

/** Viewers in a process of their own, each with a socket and an operation id as clients make them: 1, 2, …, 20. */
export interface FanoutClients {
  /** Resolves when all have had their first answer. `marked` of them note when messages come. */
  open(subscribings: Subscribing[], marked: number): Promise<void>
  begin(): Promise<void>
  /** Resolves when so many messages have come in all since `begin`, or after a time. */
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
