import { fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import type { Subscribing } from './fanout-server.ts'
import { SPACE_MESSAGES } from './operations.ts'
import type { Room } from './stack.ts'

export type CrowdOrder =
  /** The subscriptions of each socket; `marked` of them read the time in a message. */
  | { type: 'open'; sockets: Subscribing[][]; marked: number }
  | { type: 'pause'; count: number }
  | { type: 'begin' }
  | { type: 'counts' }

export interface CrowdCounts {
  /** Messages by socket, since the last `begin`. */
  received: number[]
  /** From publishing to arrival in ms, of the marked ones, since the last `begin`. */
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

/** The subscriptions of many sockets to a room, at the process of this origin. */
export const subscribingTo = ({ token, spaceId }: Room, origin: string): Subscribing => ({
  url: `${origin.replace('http', 'ws')}/graphql`,
  authorization: `Bearer ${token}`,
  query: SPACE_MESSAGES.toString(),
  variables: { spaceId },
})
