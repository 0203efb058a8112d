import type { Delivery, EventLog, LogEntry } from '../../src/realtime/event-log.ts'
import type { MessageTextDeltaEvent } from '../../src/realtime/topics.ts'
import { until } from './until.ts'

/** A consumer that takes everything as it comes and keeps it. */
export interface LogFollower {
  readonly deliveries: Delivery[]
  /** The entries so far, gaps left out. */
  entries(): LogEntry[]
  gaps(): number
  /** Of the last entry or gap. */
  cursor(): string | undefined
  /** Resolves once it has had that many entries. */
  hasEntries(count: number): Promise<LogEntry[]>
  /** What the iteration threw; undefined while it goes on or when it ended well. */
  readonly fault: { error?: unknown }
  /** Aborts it and resolves once the iteration has ended. */
  stop(): Promise<void>
}

export function startFollower(log: EventLog, topic: string, after?: string): LogFollower {
  const controller = new AbortController()
  const deliveries: Delivery[] = []
  const fault: { error?: unknown } = {}
  const entries = () => deliveries.flatMap((delivery) => (delivery.type === 'entries' ? delivery.entries : []))

  async function run(): Promise<void> {
    for await (const delivery of log.follow(topic, { after, signal: controller.signal })) deliveries.push(delivery)
  }
  const ended = run().catch((error) => {
    fault.error = error
  })

  return {
    deliveries,
    entries,
    gaps: () => deliveries.filter(({ type }) => type === 'gap').length,
    cursor() {
      const last = deliveries.at(-1)
      return last?.type === 'entries' ? last.entries.at(-1)?.cursor : last?.cursor
    },
    hasEntries: (count) =>
      until(`a follower of ${topic} has had ${count} entries`, () => {
        if (fault.error) throw fault.error
        return entries().length >= count && entries()
      }),
    fault,
    async stop() {
      controller.abort()
      await ended
    },
  }
}

/** What a client makes of a message's first part: a snapshot at each gap, and the deltas that follow. */
export interface TextReader {
  text(): string
  /** Deltas that began beyond the text known so far: there must be none. */
  readonly holes: string[]
  /** Leaves, as a client does whose connection breaks. */
  disconnect(): Promise<void>
  /** Comes back with the last cursor it saw. */
  connect(): void
  readonly fault: { error?: unknown }
}

export function startTextReader(log: EventLog, topic: string, messageId: string): TextReader {
  let text = ''
  let cursor: string | undefined
  let leave: () => Promise<void> = async () => {}
  const holes: string[] = []
  const fault: { error?: unknown } = {}

  function grow({ offset, delta }: MessageTextDeltaEvent): void {
    if (offset > text.length) holes.push(`${offset} when ${text.length} were known`)
    else text += delta.slice(text.length - offset)
  }

  async function take(delivery: Delivery): Promise<void> {
    if (delivery.type === 'gap') {
      const snapshot = (await log.drafts(topic, [messageId])).get(messageId)?.get(0) ?? ''
      if (snapshot.length > text.length) text = snapshot
      cursor = delivery.cursor
      return
    }
    for (const entry of delivery.entries) {
      const event = entry.event as MessageTextDeltaEvent
      if (event.type === 'MessageTextDelta' && event.messageId === messageId) grow(event)
      cursor = entry.cursor
    }
  }

  function connect(): void {
    const controller = new AbortController()
    async function run(): Promise<void> {
      for await (const delivery of log.follow(topic, { after: cursor, signal: controller.signal })) await take(delivery)
    }
    const ended = run().catch((error) => {
      fault.error = error
    })
    leave = async () => {
      controller.abort()
      await ended
    }
  }

  connect()
  return { text: () => text, holes, disconnect: () => leave(), connect, fault }
}
