// Publishes at a fixed rate, in a process that does nothing else: to Parley's log, as another Parley process would, or to
// channels.
import { Redis } from 'ioredis'
import { createBroker } from '../../src/broker/broker.ts'
import type { LogEvent } from '../../src/broker/log.ts'
import type { Published, PublisherOrder } from './fanout-publisher.ts'
import { endWithParent, type Feed, textNow } from './fanout-server.ts'
import { now } from './model.ts'

type Publish = (name: string, event: LogEvent) => unknown
const open = new Map<string, Promise<Publish>>()

/** The least that a log does: stores and publishes an event in one step. */
const KEEP_AND_PUBLISH = `
redis.call('XADD', KEYS[1], 'MAXLEN', '~', 10000, '*', 'e', ARGV[1])
return redis.call('PUBLISH', KEYS[1], ARGV[1])`

async function openFeed({ type, redisUrl, prefix, keeps }: Feed): Promise<Publish> {
  if (type === 'log') {
    const { log } = await createBroker({ redisUrl, prefix })
    return (name, event) => log.append(name, event)
  }
  const redis = new Redis(redisUrl, { enableAutoPipelining: true })
  if (keeps) {
    redis.defineCommand('keepAndPublish', { lua: KEEP_AND_PUBLISH, numberOfKeys: 1 })
    const { keepAndPublish } = redis as Redis & { keepAndPublish(name: string, event: string): Promise<number> }
    return (name, event) => keepAndPublish.call(redis, name, JSON.stringify(event))
  }
  return (name, event) => redis.publish(name, JSON.stringify(event))
}

/**
 * A timer fires up to a millisecond late, always by the same fraction if events are whole milliseconds apart. For an even pace,
 * the process spends the last two milliseconds in a busy loop.
 */
const SPUN_MS = 2
const MOST_SPUN_A_SECOND = 100

async function waitUntil(dueAt: number, spunMs: number): Promise<void> {
  for (let left = dueAt - now(); left > 0; left = dueAt - now()) {
    if (left > spunMs) await new Promise((resolve) => setTimeout(resolve, Math.floor(left - spunMs)))
  }
}

endWithParent()
process.on('message', async ({ feed, payload, spaces, events, eventsASecond }: PublisherOrder) => {
  const key = `${feed.type} ${feed.prefix}`
  if (!open.has(key)) open.set(key, openFeed(feed))
  const publish = await open.get(key)!
  const event = feed.events[payload] as LogEvent
  const offset = textNow().length
  const spunMs = eventsASecond <= MOST_SPUN_A_SECOND ? SPUN_MS : 0
  const published: Published = { dueAt: [], latestMs: 0 }
  const startedAt = now() + 5
  for (let n = 0; n < events; n++) {
    const dueAt = startedAt + (n * 1000) / eventsASecond
    await waitUntil(dueAt, spunMs)
    published.dueAt.push(dueAt)
    published.latestMs = Math.max(published.latestMs, now() - dueAt)
    const delta = payload === 'deltas' ? { offset: n * offset, delta: textNow() } : {}
    void publish(feed.names[n % spaces]!, { ...event, ...delta })
    // Let the socket send, even if the publisher is late.
    if (n % 100 === 99) await new Promise((resolve) => setImmediate(resolve))
  }
  process.send?.(published)
})
