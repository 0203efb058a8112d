import { fork } from 'node:child_process'
import path from 'node:path'
import { type Feed, nextOf, type Payload } from './fanout-server.ts'

/** Publishes events at a fixed rate to the spaces in turn. */
export interface PublisherOrder {
  feed: Feed
  payload: Payload
  spaces: number
  events: number
  eventsASecond: number
}

export interface Published {
  /**
   * The due time of each event, by `now()`. Latencies are measured from it, so that a late publisher does not make them look
   * shorter.
   */
  dueAt: number[]
  /** The largest delay of an event, in ms. */
  latestMs: number
}

/** Publishes from a separate process. */
export interface Publisher {
  publish(order: PublisherOrder): Promise<Published>
  stop(): void
}

export function startPublisher(): Publisher {
  const child = fork(path.join(import.meta.dirname, 'fanout-publisher-process.ts'), { serialization: 'advanced' })
  return {
    async publish(order) {
      child.send(order)
      return (await nextOf(child)) as Published
    },
    stop: () => void child.kill('SIGKILL'),
  }
}
