import { fork } from 'node:child_process'
import path from 'node:path'
import { type Feed, nextOf, type Payload } from './fanout-server.ts'

/** Publishes events at a fixed rate, one to each space in turn. */
export interface PublisherOrder {
  feed: Feed
  payload: Payload
  spaces: number
  events: number
  eventsASecond: number
}

export interface Published {
  /** The due time of each event, by `now()`: a late publisher does not improve the measured times. */
  dueAt: number[]
  /** The delay of the latest one, in ms. */
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
