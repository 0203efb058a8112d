import { fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'

/** What somebody does with a server for a while, as fast as it lets them. */
export interface FloodOrder {
  origin: string
  token: string
  /** A space of theirs with a hundred messages. */
  spaceId: string
  /** Another one, in which the shared agent answers. */
  agentSpaceId: string
  seconds: number
  kind: FloodKind
}

export type FloodKind =
  /** 8 heavy queries at a time. */
  | 'queries'
  /** 300 heavy queries at a time on one socket. */
  | 'socket'
  /** 20 subscriptions that ask for much, and messages that they tell of. */
  | 'subscriptions'
  /** 500 to viewerEvents over 5 sockets, and messages. */
  | 'viewerEvents'
  /** 400 messages to the shared agent. */
  | 'messages'
  /** 8 documents at a time that take long to refuse. */
  | 'documents'

export interface FloodResult {
  sent: number
  /** Answered with what was asked for. */
  served: number
}

/** Runs one in a process of its own. */
export async function flood(order: FloodOrder): Promise<FloodResult> {
  const child = fork(path.join(import.meta.dirname, 'flood-process.ts'))
  child.send(order)
  const [result] = (await once(child, 'message')) as [FloodResult]
  child.kill('SIGKILL')
  return result
}
