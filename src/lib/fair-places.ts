import { unlessAborted } from './async.ts'
import { RateLimitedError } from './errors.ts'

/** Limits concurrent work, such as uploads, so that requesters with many places cannot exclude others. */
export interface FairPlaces {
  /**
   * Runs `work`. If all places are taken, the requester with the most places loses one: its newest work is aborted,
   * provided that it has at least two more places than this requester.
   * @param work gets a signal that aborts when another requester gets its place
   * @throws RateLimitedError if there is no place; any error that `work` throws
   */
  run<T>(requesterId: string, work: (signal: AbortSignal) => Promise<T>): Promise<T>
}

export interface FairPlacesOptions {
  most: number
  mostOfOne: number
  /** How many tasks of one requester may wait for its own earlier tasks to end. None may wait by default. */
  mostWaiting?: number
  longestWaitMs?: number
  /** The message of the error for a requester that gets no place. */
  refusal: string
}

const RETRY_AFTER_MS = 1000

/** The work of one requester. */
interface Own {
  /** The tasks in progress, oldest first. */
  inProgress: Set<AbortController>
  /** The functions that start waiting tasks. They are called in this order as places become free. */
  waiting: Set<() => void>
}

export function createFairPlaces({
  most,
  mostOfOne,
  mostWaiting = 0,
  longestWaitMs = 0,
  refusal,
}: FairPlacesOptions): FairPlaces {
  const requesters = new Map<string, Own>()
  let taken = 0
  const refused = () => new RateLimitedError(refusal, RETRY_AFTER_MS)

  function ownOf(requesterId: string): Own {
    const own = requesters.get(requesterId) ?? { inProgress: new Set(), waiting: new Set() }
    requesters.set(requesterId, own)
    return own
  }

  function leave(requesterId: string, place: AbortController): void {
    const own = ownOf(requesterId)
    if (own.inProgress.delete(place)) taken -= 1
    const [next] = own.waiting
    if (next !== undefined && own.inProgress.size < mostOfOne) next()
    else if (own.inProgress.size === 0) requesters.delete(requesterId)
  }

  /**
   * Takes a place from the requester that has the most places. Returns false if that requester does not have at least
   * two places more than `count`.
   */
  function makeRoom(count: number): boolean {
    const [largest] = [...requesters].sort(([, one], [, other]) => other.inProgress.size - one.inProgress.size)
    if (largest === undefined || largest[1].inProgress.size < count + 2) return false
    const { inProgress } = largest[1]
    const newest = [...inProgress].at(-1)
    if (newest === undefined) return false
    newest.abort(refused())
    inProgress.delete(newest)
    taken -= 1
    return true
  }

  /**
   * Resolves when one of the requester's own tasks has ended.
   * @throws RateLimitedError if this takes too long
   */
  function turnOf({ waiting }: Own): Promise<void> {
    return new Promise((resolve, reject) => {
      const begin = () => {
        clearTimeout(timer)
        waiting.delete(begin)
        resolve()
      }
      const timer = setTimeout(() => {
        waiting.delete(begin)
        reject(refused())
      }, longestWaitMs)
      waiting.add(begin)
    })
  }

  async function take(requesterId: string): Promise<AbortController> {
    for (;;) {
      const own = ownOf(requesterId)
      const count = own.inProgress.size
      if (count < mostOfOne) {
        if (taken >= most && !makeRoom(count)) {
          if (count === 0 && own.waiting.size === 0) requesters.delete(requesterId)
          throw refused()
        }
        const place = new AbortController()
        own.inProgress.add(place)
        taken += 1
        return place
      }
      if (own.waiting.size >= mostWaiting) throw refused()
      await turnOf(own)
    }
  }

  return {
    async run(requesterId, work) {
      const place = await take(requesterId)
      try {
        // The work may react late to the abort, for example an upload whose sender pauses.
        return await unlessAborted(place.signal, work(place.signal))
      } catch (error) {
        throw place.signal.aborted ? place.signal.reason : error
      } finally {
        leave(requesterId, place)
      }
    },
  }
}
