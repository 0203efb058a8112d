import type { EventLog, LogBatch, Publication } from '../../src/broker/log.ts'
import type { MessageTextDeltaEvent, MessageTextReplacedEvent } from '../../src/broker/topics.ts'
import { until } from './until.ts'

/** A consumer that reads and stores everything at once. */
export interface LogFollower {
  readonly deliveries: LogBatch[]
  /** The entries so far, without gaps. */
  entries(): Publication[]
  gaps(): number
  /** The cursor of the last entry or gap. */
  cursor(): string | undefined
  /** Resolves once the follower has this many entries. */
  hasEntries(count: number): Promise<Publication[]>
  /** The error of the iteration; undefined while it is running, or if it ended regularly. */
  readonly fault: { error?: unknown }
  /** Aborts the iteration, and resolves once it has ended. */
  stop(): Promise<void>
}

export function startFollower(log: EventLog, topic: string, after?: string): LogFollower {
  const controller = new AbortController()
  const deliveries: LogBatch[] = []
  const fault: { error?: unknown } = {}
  const entries = () =>
    deliveries.flatMap((delivery) => (delivery.type === 'publications' ? delivery.publications : []))

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
      return last?.type === 'publications' ? last.publications.at(-1)?.cursor : last?.cursor
    },
    hasEntries: (count) =>
      until(`a follower of ${topic} has ${count} entries`, () => {
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

/** A message's first part as a client sees it: a snapshot at each gap, and the deltas that follow. */
export interface TextReader {
  text(): string
  /**
   * Deltas that start beyond the end of the text, since the last replacement. This can happen if the snapshot is newer than its
   * cursor: if a replacement has shortened the text, earlier deltas start beyond the end of the snapshot. In the end, none of
   * these may remain.
   */
  readonly holes: string[]
  /** Disconnects, as a client does whose connection breaks. */
  disconnect(): Promise<void>
  /** Resumes at the last cursor. */
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

  async function take(delivery: LogBatch): Promise<void> {
    if (delivery.type === 'gap') {
      const snapshot = (await log.drafts(topic, [messageId])).get(messageId)?.get(0) ?? ''
      if (snapshot.length > text.length) text = snapshot
      cursor = delivery.cursor
      return
    }
    for (const entry of delivery.publications) {
      const event = entry.event as MessageTextDeltaEvent | MessageTextReplacedEvent
      if (event.messageId === messageId && event.type === 'MessageTextDelta') grow(event)
      else if (event.messageId === messageId && event.type === 'MessageTextReplaced') {
        text = text.slice(0, event.offset) + event.text
        holes.length = 0
      }
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
