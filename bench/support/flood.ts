import { fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'

/** The behaviour of an abusive client for a while, as fast as the server allows. */
export interface FloodOrder {
  origin: string
  token: string
  /** A space of its own with a hundred messages. */
  spaceId: string
  /** Another one, in which the shared agent responds. */
  agentSpaceId: string
  seconds: number
  kind: FloodKind
}

export type FloodKind =
  /** 8 concurrent heavy queries. */
  | 'queries'
  /** 300 concurrent heavy queries on one socket. */
  | 'socket'
  /** 20 heavy subscriptions, and messages that cause events. */
  | 'subscriptions'
  /** 500 to viewerEvents over 5 sockets, and messages. */
  | 'viewerEvents'
  /** 400 messages to the shared agent. */
  | 'messages'
  /** 8 concurrent documents that are slow to refuse. */
  | 'documents'

export interface FloodResult {
  sent: number
  /** Successful operations. */
  served: number
}

/** Runs one in a separate process. */
export async function flood(order: FloodOrder): Promise<FloodResult> {
  const child = fork(path.join(import.meta.dirname, 'flood-process.ts'))
  child.send(order)
  const [result] = (await once(child, 'message')) as [FloodResult]
  child.kill('SIGKILL')
  return result
}
