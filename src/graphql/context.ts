import type { RateName } from '../access/rates.ts'
import type { Viewer } from '../access/viewer.ts'
import { RateLimitedError } from '../lib/errors.ts'
import type { Domain } from './domain.ts'
import { type CommonLoaders, createCommonLoaders } from './loaders.ts'
import type { ResponseMeter } from './response-meter.ts'
import type { Streams } from './streams.ts'
import { createLoaders, type Loaders } from './viewer-loaders.ts'

/** The context of every resolver. */
export interface Context {
  domain: Domain
  streams: Streams
  viewer: Viewer
  /** Called when the client cannot keep up with a subscription. */
  onSlow(): void
  loaders: Loaders
  /**
   * Whether the operation selects stream cursors. These must be taken before the rows that they belong to are
   * read.
   */
  takesCursors: boolean
  /** The number of fields that the operation may return. */
  weight?: number
  /** Set if the viewer has exceeded the rate of requests: a mutation that lists RateLimitedError returns it. */
  overRate?: RateLimitedError
  /** When the operation may begin no further mutation, on the clock of `performance.now`. Absent: no limit. */
  endsAt?: number
  /**
   * A space in which the viewer is known to be a member, because only members receive the event being executed;
   * else null.
   */
  shownIn: string | null
  /** The origin to which the operation was sent, as its client sees it; null for the events of subscriptions. */
  askedOrigin: string | null
  /** Counts the response of this execution. Absent if the response has no limit. */
  meter?: ResponseMeter
  /**
   * The results of an operation's mutations by response key, kept while its response is built again with fewer
   * edges.
   */
  mutationResults?: Map<string, unknown>
}

export interface ContextOptions extends Pick<Context, 'domain' | 'streams' | 'viewer' | 'onSlow' | 'takesCursors'> {
  /** Loaders shared with the other viewers of the same execution. If absent, the context creates its own. */
  common?: () => CommonLoaders
  shownIn?: string | null
  askedOrigin?: string | null
}

/** Creates loaders on first use: a small operation, and most events of a stream, need none. */
export function createContext({ common, shownIn = null, askedOrigin = null, ...given }: ContextOptions): Context {
  const loaders = madeWhenAsked(() => createLoaders(given, common?.() ?? createCommonLoaders(given)))
  return { ...given, shownIn, askedOrigin, loaders }
}

/**
 * Returns a proxy that calls `make` on first use. A getter would not work: the context is copied on its way to the
 * resolvers, and the copy would evaluate the getter.
 */
function madeWhenAsked<T extends object>(make: () => T): T {
  let made: T | undefined
  return new Proxy({} as T, {
    get(_, key) {
      made ??= make()
      return Reflect.get(made, key)
    },
  })
}

/** Returns the absolute URL of a path, on the host by which the client reaches this server. */
export const linkTo = ({ domain, askedOrigin }: Context, path: string): string => domain.publicUrl.to(path, askedOrigin)

/** Counts a mutation towards a rate. @throws RateLimitedError over this rate, or over that of requests */
export async function takeRate(context: Context, name: RateName, points = 1): Promise<void> {
  checkRequestRate(context)
  await context.domain.rates.take(name, context.viewer, points)
}

/**
 * For a mutation that lists RateLimitedError. @throws RateLimitedError if the operation exceeds the rate
 * of requests
 */
export function checkRequestRate({ overRate }: Context): void {
  if (overRate !== undefined) throw overRate
}

/** The time after which a client may try again what its operation had no time for. */
const AFTER_LONG_OPERATION_MS = 5000

/** Discards everything that was loaded. Called before a mutation. @throws RateLimitedError if the operation has no time left for it */
export function renewed(context: Context): Context {
  if (context.endsAt !== undefined && performance.now() > context.endsAt) {
    throw new RateLimitedError(
      'The operation takes too long: this mutation was not started. Send fewer mutations in one operation.',
      AFTER_LONG_OPERATION_MS,
    )
  }
  context.loaders = createLoaders(context, createCommonLoaders(context))
  return context
}
