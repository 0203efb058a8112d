// Caches the answers to publications for all subscribers of one operation, and executes the operation on an event
// once for all viewers that need the answer in the same tick.
import { LRUCache } from 'lru-cache'
import type { Viewer } from '../access/viewer.ts'
import { type Answer, type EventAnswer, isPersonal } from './answer.ts'
import type { Delivery } from './feed.ts'

export type MaybePromise<T> = T | Promise<T>

/** The size of the cache of answers in this process, in characters. */
const MOST_CACHED_CHARACTERS = 16 * 1024 * 1024

interface CachedAnswer {
  /** Undefined once the cache has evicted it. */
  answer: Answer | undefined
}

const TOO_LARGE: CachedAnswer = { answer: undefined }

/**
 * Frees the memory that a burst of events takes. Few subscribers resume after a longer pause; for them, events are
 * executed again.
 */
const KEPT_FOR_MS = 30_000
const PURGED_EVERY_MS = 15_000

const cachedAnswers = new LRUCache<CachedAnswer, true>({
  maxSize: MOST_CACHED_CHARACTERS,
  ttl: KEPT_FOR_MS,
  ttlResolution: 1000,
  dispose(_, kept) {
    kept.answer = undefined
  },
})

setInterval(() => cachedAnswers.purgeStale(), PURGED_EVERY_MS).unref()

/**
 * Caches an answer for `KEPT_FOR_MS`, or until it is evicted because the answers of all operations exceed
 * `MOST_CACHED_CHARACTERS`.
 */
function cacheAnswer(answer: Answer): CachedAnswer {
  const kept = { answer }
  cachedAnswers.set(kept, true, { size: answer.text.length + 1 })
  return cachedAnswers.has(kept) ? kept : TOO_LARGE
}

/**
 * Caches the answers of one operation. It keeps the answer to a publication until the window drops the publication or
 * the cache evicts the answer, and the answer to a snapshot while the snapshot is being executed. Per-viewer answers
 * are not cached.
 */
export function createAnswerCache() {
  const ofPublications = new WeakMap<object, CachedAnswer | Promise<EventAnswer>>()
  const ofSnapshots = new Map<string, Promise<EventAnswer>>()

  function keepWhilePending(key: object | string, answer: Promise<EventAnswer>): void {
    const answers = (typeof key === 'string' ? ofSnapshots : ofPublications) as Map<unknown, unknown>
    answers.set(key, answer)
    const forget = () => {
      if (answers.get(key) === answer) answers.delete(key)
    }
    answer.then((settled) => {
      forget()
      keep(key, settled)
    }, forget)
  }

  function keep(key: object | string, answer: MaybePromise<EventAnswer>): void {
    if (answer instanceof Promise) keepWhilePending(key, answer)
    else if (typeof key !== 'string' && !isPersonal(answer)) ofPublications.set(key, cacheAnswer(answer))
  }

  function get(key: object | string): Answer | Promise<EventAnswer> | undefined {
    if (typeof key === 'string') return ofSnapshots.get(key)
    const cached = ofPublications.get(key)
    return cached instanceof Promise ? cached : cached?.answer
  }

  return { keep, get }
}

/** Batches the requests for one event in one tick into a single execution. */
export function createBatching(
  execute: (delivery: Delivery<object>, viewers: Iterable<Viewer>) => MaybePromise<EventAnswer>,
) {
  const batches = new Map<Delivery<object>['shareKey'], { viewers: Viewer[]; answer: Promise<EventAnswer> }>()
  return (delivery: Delivery<object>, viewers: Iterable<Viewer>): Promise<EventAnswer> => {
    const waiting = batches.get(delivery.shareKey)
    if (waiting !== undefined) {
      waiting.viewers.push(...viewers)
      return waiting.answer
    }
    const all = [...viewers]
    const answer = Promise.resolve().then(() => {
      batches.delete(delivery.shareKey)
      return execute(delivery, all)
    })
    batches.set(delivery.shareKey, { viewers: all, answer })
    return answer
  }
}
