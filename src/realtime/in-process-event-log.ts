import { decodeCursor, encodeCursor } from './cursor.ts'
import { deliveryOf } from './entry-window.ts'
import { type EventLog, type FollowOptions, KEPT_MS, LogUnavailableError } from './event-log.ts'
import { deliveries, type TopicSource } from './following.ts'
import { InProcessDrafts } from './in-process-drafts.ts'
import { InProcessTopics } from './in-process-topics.ts'
import { createIterations } from './iterations.ts'

/** An event log in the memory of this process. Other processes do not see it, and it ends with the process. */
export function createInProcessEventLog({ now = Date.now }: { now?: () => number } = {}): EventLog {
  const topics = new InProcessTopics(now)
  const drafts = new InProcessDrafts(now)
  const seals = new Map<string, number>()
  const iterations = createIterations()
  let closed = false

  /** Every call starts here. Expired data is deleted on the way, so that no timers are needed. */
  function enter(): void {
    if (closed) throw new LogUnavailableError('The event log is closed.')
    if (!topics.sweepIfDue()) return
    drafts.sweep()
    for (const [seal, until] of seals) if (until <= now()) seals.delete(seal)
  }

  const isSealed = (topic: string, seal: string | undefined) =>
    seal !== undefined && (seals.get(sealOf(topic, seal)) ?? 0) > now()

  async function* followTopic(name: string, { after, ...hooks }: FollowOptions, signal: AbortSignal) {
    const topic = topics.at(name)
    topic.followers += 1
    const source: TopicSource = {
      window: topic.window,
      standing: async () => {},
      read: async (position, limit) => topic.window.read(position, limit),
      refresh: async () => {},
    }
    try {
      yield* deliveries(source, after === undefined ? null : decodeCursor(after), signal, hooks)
    } finally {
      topic.followers -= 1
    }
  }

  return {
    async append(topic, event, options) {
      enter()
      return isSealed(topic, options?.unlessSealed) ? { type: 'sealed' } : topics.append(topic, event, options)
    },
    async appendDelta(topic, delta, whole, options) {
      enter()
      if (isSealed(topic, options?.unlessSealed)) return null
      const outcome = drafts.grow(delta, whole)
      if (outcome.type === 'held') return encodeCursor(topics.at(topic).window.end)
      const { messageId, partIndex } = delta
      const event = { type: 'MessageTextDelta', messageId, partIndex, ...outcome.appended }
      const result = topics.append(topic, event)
      return result.type === 'appended' ? result.cursor : null
    },
    async drafts(_topic, messageIds) {
      enter()
      return drafts.read(messageIds)
    },
    async finishDraft(_topic, messageId) {
      enter()
      drafts.finish(messageId)
    },
    async heads(names) {
      enter()
      return names.map((name) => encodeCursor(topics.at(name).window.end))
    },
    async read(topic, after, limit) {
      const position = decodeCursor(after)
      enter()
      const page = topics.at(topic).window.read(position, limit)
      return deliveryOf(page)
    },
    follow(topic, options) {
      if (options.after !== undefined) decodeCursor(options.after)
      return iterations.open(options.signal, (signal) => followTopic(topic, options, signal))
    },
    async expire(topic, seconds) {
      enter()
      topics.expire(topic, seconds)
    },
    async seal(seal, names) {
      enter()
      for (const topic of names) seals.set(sealOf(topic, seal), now() + KEPT_MS)
    },
    async announced(names) {
      enter()
      return names.map((name) => topics.find(name)?.ordinal ?? null)
    },
    stats: () => ({ topics: topics.followed(), followers: iterations.count() }),
    healthy: async () => !closed,
    async close() {
      closed = true
      iterations.endAll()
      topics.clear()
    },
  }
}

const sealOf = (topic: string, seal: string) => `${topic} ${seal}`
