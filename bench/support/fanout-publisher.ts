import { fork } from 'node:child_process'
import path from 'node:path'
import { type Feed, nextOf, type Payload } from './fanout-server.ts'

/** Publish so many events at a fixed rate, one to each space in turn. */
export interface PublisherOrder {
  feed: Feed
  payload: Payload
  spaces: number
  events: number
  eventsASecond: number
}

export interface Published {
  /** When each event was due, by `now()`: a publisher that is late does not make what it measures look better. */
  dueAt: number[]
  /** How late the latest one left, in ms. */
  latestMs: number
}

/** Publishes from a process of its own. */
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
