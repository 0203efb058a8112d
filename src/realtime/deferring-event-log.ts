import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { type AppendOptions, type EventLog, type LogEvent, LogUnavailableError } from './event-log.ts'
import type { RealtimeLogger } from './logger.ts'

/** An event that could not be appended yet. */
interface Deferred {
  event: LogEvent
  options: AppendOptions | undefined
}

const RETRY_INTERVAL_MS = 500
/** Past so many events of a topic that wait, the oldest are given up: who follows gets a gap, and looks things up. */
const MOST_DEFERRED = 10_000

/**
 * A log that never fails those who announce what is committed already: while it cannot be reached, their events wait in this
 * process, in order, and go out when it is back. Reading, following and deltas are the log's own: their callers decide.
 */
export function createDeferringEventLog(log: EventLog, logger: RealtimeLogger): EventLog {
  const waiting = new Map<string, Deferred[]>()
  const stop = new AbortController()
  let retrying: Promise<void> | null = null

  function defer(topic: string, deferred: Deferred): { type: 'deferred' } {
    const queue = waiting.get(topic) ?? []
    waiting.set(topic, queue)
    queue.push(deferred)
    if (queue.length > MOST_DEFERRED) queue.shift()
    retrying ??= retry().finally(() => {
      retrying = null
    })
    return { type: 'deferred' }
  }

  async function retry(): Promise<void> {
    while (waiting.size > 0 && !stop.signal.aborted) {
      await sleep(RETRY_INTERVAL_MS, stop.signal)
      for (const [topic, queue] of waiting) if (!(await drain(topic, queue))) break
    }
  }

  /** True once the topic's queue is empty; what comes in meanwhile is appended directly again. */
  async function drain(topic: string, queue: Deferred[]): Promise<boolean> {
    for (let next = queue[0]; next !== undefined; next = queue[0]) {
      try {
        await log.append(topic, next.event, next.options)
      } catch (error) {
        if (error instanceof LogUnavailableError) return false
        logger.warn({ topic, event: next.event.type, error: messageOf(error) }, 'an event was refused by the log')
      }
      queue.shift()
    }
    waiting.delete(topic)
    return true
  }

  async function tolerated(what: string, work: Promise<void>): Promise<void> {
    await work.catch((error) => {
      if (!(error instanceof LogUnavailableError)) throw error
      logger.warn({ error: messageOf(error) }, `${what} while the log was away`)
    })
  }

  return {
    ...log,
    async append(topic, event, options) {
      if (waiting.has(topic)) return defer(topic, { event, options })
      try {
        return await log.append(topic, event, options)
      } catch (error) {
        if (!(error instanceof LogUnavailableError) || stop.signal.aborted) throw error
        return defer(topic, { event, options })
      }
    },
    seal: (guard) => tolerated('a run could not be sealed', log.seal(guard)),
    finishDraft: (messageId) => tolerated('a draft was not let go', log.finishDraft(messageId)),
    expire: (topic, seconds) => tolerated('a topic was not let go', log.expire(topic, seconds)),
    async close() {
      stop.abort()
      await log.close()
      await retrying
    },
  }
}
