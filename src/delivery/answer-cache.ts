// Caches the answers to publications for all subscribers of one operation. If several viewers need the answer to an
// event in the same tick, executes the operation once for all of them.
import { LRUCache } from 'lru-cache'
import type { Viewer } from '../access/viewer.ts'
import { type Answer, type EventAnswer, isPersonal } from './answer.ts'
import type { Delivery } from './feed.ts'

export type MaybePromise<T> = T | Promise<T>

/** The maximum size of the cache of answers in this process, in characters. */
const MOST_CACHED_CHARACTERS = 16 * 1024 * 1024

interface CachedAnswer {
  /** The answer; undefined once the cache has evicted the answer. */
  answer: Answer | undefined
}

const TOO_LARGE: CachedAnswer = { answer: undefined }

/**
 * How long answers are kept. The time is short, so that the memory for a burst of events is freed. For the few
 * subscribers that resume later, the operation is executed again.
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
 * Caches an answer for `KEPT_FOR_MS`. The cache evicts the answer earlier if all cached answers together exceed
 * `MOST_CACHED_CHARACTERS`.
 */
function cacheAnswer(answer: Answer): CachedAnswer {
  const kept = { answer }
  cachedAnswers.set(kept, true, { size: answer.text.length + 1 })
  return cachedAnswers.has(kept) ? kept : TOO_LARGE
}

/**
 * Caches the answers of one operation. The answer to a publication is kept until the window drops the publication
 * or the cache evicts the answer. The answer to a snapshot is kept only while the operation is executed on the
 * snapshot. Per-viewer answers are not cached.
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

/** Combines the requests for one event in one tick into a single execution. */
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
