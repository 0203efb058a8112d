import { fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import type { Subscribing } from './fanout-server.ts'
import { SPACE_MESSAGES } from './operations.ts'
import type { Room } from './stack.ts'

export type CrowdOrder =
  /** Opens sockets, each with its subscriptions. `marked` of the sockets read the time that a message contains. */
  | { type: 'open'; sockets: Subscribing[][]; marked: number }
  | { type: 'pause'; count: number }
  | { type: 'begin' }
  | { type: 'counts' }

export interface CrowdCounts {
  /** The number of messages of each socket since the last `begin`. */
  received: number[]
  /** The milliseconds from publishing to arrival of each message at the marked sockets, since the last `begin`. */
  delays: number[]
  /** The number of closed sockets. */
  closed: number
}

/** Many subscribed sockets in a separate process. */
export interface Crowd {
  pid: number
  ask(order: CrowdOrder): Promise<CrowdCounts>
  /** Resolves once every socket has had that many messages since the last `begin`. */
  all(messages: number): Promise<CrowdCounts>
  stop(): void
}

export function startCrowd(): Crowd {
  const child = fork(path.join(import.meta.dirname, 'crowd-process.ts'), { serialization: 'advanced' })
  async function ask(order: CrowdOrder): Promise<CrowdCounts> {
    child.send(order)
    return (await once(child, 'message'))[0]
  }
  return {
    pid: child.pid ?? 0,
    ask,
    async all(messages) {
      for (;;) {
        const counts = await ask({ type: 'counts' })
        if (counts.received.every((count) => count >= messages)) return counts
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
    },
    stop: () => void child.kill('SIGKILL'),
  }
}

/** Returns a subscription to the messages of a room, at the server with this origin. */
export const subscribingTo = ({ token, spaceId }: Room, origin: string): Subscribing => ({
  url: `${origin.replace('http', 'ws')}/graphql`,
  authorization: `Bearer ${token}`,
  query: SPACE_MESSAGES.toString(),
  variables: { spaceId },
})
