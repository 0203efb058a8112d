import { fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'

/** The requests of an abusive client for a while, as fast as the server allows. */
export interface FloodOrder {
  origin: string
  token: string
  /** A space with a hundred messages that belongs to the client. */
  spaceId: string
  /** Another space of the client, in which the shared agent answers. */
  agentSpaceId: string
  seconds: number
  kind: FloodKind
}

export type FloodKind =
  /** 8 concurrent heavy queries. */
  | 'queries'
  /** 300 concurrent heavy queries on one socket. */
  | 'socket'
  /** 20 heavy subscriptions, and messages that cause events for them. */
  | 'subscriptions'
  /** 500 subscriptions to viewerEvents over 5 sockets, and messages that cause events for them. */
  | 'viewerEvents'
  /** 400 messages to the shared agent. */
  | 'messages'
  /** 8 concurrent documents whose rejection takes the server a long time. */
  | 'documents'

export interface FloodResult {
  sent: number
  /** The number of successful operations. */
  served: number
}

/** Runs one kind of flood in a separate process. */
export async function flood(order: FloodOrder): Promise<FloodResult> {
  const child = fork(path.join(import.meta.dirname, 'flood-process.ts'))
  child.send(order)
  const [result] = (await once(child, 'message')) as [FloodResult]
  child.kill('SIGKILL')
  return result
}
