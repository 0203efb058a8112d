import type { Rates } from '../access/rates.ts'
import type { Viewer } from '../access/viewer.ts'
import { createCounts } from '../lib/counts.ts'
import { RateLimitedError } from '../lib/errors.ts'

/**
 * Counts the bytes of requests. A request may contain far more than its operation needs (such as ids, extensions or
 * undeclared variables), and the whole request stays in memory until the operation has ended.
 */
export interface RequestBytes {
  /**
   * Counts the bytes towards the viewer's rate, before the request is parsed.
   * @throws RateLimitedError for a long request, if the viewer already exceeds the rate
   */
  charge(viewer: Viewer, bytes: number): void
  /**
   * Counts the bytes as memory in use until the returned function is called.
   * @throws RateLimitedError if the viewer, or all viewers together, use too many bytes
   */
  hold(viewer: Viewer, bytes: number): () => void
}

export interface RequestBytesOptions {
  mostOfViewer?: number
  mostInAll?: number
  /** The number of bytes that each viewer may use, however many bytes others use. */
  alwaysFree?: number
}

/** The maximum length of an operation id chosen by the client, because each event of a subscription repeats the id. */
export const LONGEST_OPERATION_ID = 128
const MIB = 1024 * 1024
const MOST_OF_VIEWER = 32 * MIB
const MOST_IN_ALL = 256 * MIB
const ALWAYS_FREE = 2 * MIB
/** This many bytes of a request count as one more request. */
const BYTES_A_REQUEST = 16 * 1024
/**
 * The minimum size of a long request. Shorter requests are parsed even above the rate, so that a mutation can return
 * its RateLimitedError.
 */
const LONG = 256 * 1024
const TRY_AGAIN_MS = 5000

/** Returns how many additional requests a request counts as because of its size. */
export const pointsOfBytes = (bytes: number): number => Math.floor(bytes / BYTES_A_REQUEST)

export function createRequestBytes(
  rates: Pick<Rates, 'take' | 'refusal'>,
  { mostOfViewer = MOST_OF_VIEWER, mostInAll = MOST_IN_ALL, alwaysFree = ALWAYS_FREE }: RequestBytesOptions = {},
): RequestBytes {
  const held = createCounts()
  let inAll = 0

  return {
    charge(viewer, bytes) {
      const points = pointsOfBytes(bytes)
      if (points === 0) return
      const refusal = bytes > LONG ? rates.refusal('requests', viewer) : null
      rates.take('requests', viewer, points).catch(() => {})
      if (refusal !== null) throw refusal
    },
    hold({ id }, bytes) {
      const own = held.of(id) + bytes
      if (own > mostOfViewer || (inAll + bytes > mostInAll && own > alwaysFree)) throw tooMuch()
      held.add(id, bytes)
      inAll += bytes
      let isOver = false
      return () => {
        if (isOver) return
        isOver = true
        inAll -= bytes
        held.add(id, -bytes)
      }
    },
  }
}

function tooMuch(): RateLimitedError {
  return new RateLimitedError(
    'The requests of your active operations and subscriptions are too large in total. Wait, or end some of them, then try again.',
    TRY_AGAIN_MS,
  )
}
