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
   * Whether the operation selects stream cursors. If so, the cursors must be read before the rows that they belong
   * to.
   */
  takesCursors: boolean
  /** The number of fields that the operation may return. */
  weight?: number
  /**
   * Set if the viewer has exceeded the rate of requests. A mutation returns this error if its result union contains
   * RateLimitedError.
   */
  overRate?: RateLimitedError
  /**
   * The time after which the operation starts no further mutation, on the clock of `performance.now`. If absent,
   * there is no limit.
   */
  endsAt?: number
  /**
   * A space that the viewer belongs to, because only its members receive the event that is being executed. Null if
   * there is no such space.
   */
  shownIn: string | null
  /**
   * The origin to which the client sent the operation, from the client's point of view. Null while events of
   * subscriptions are executed.
   */
  askedOrigin: string | null
  /** Counts the size of this execution's response. Absent if the size is not limited. */
  meter?: ResponseMeter
  /**
   * The results of an operation's mutations by response key. They are reused if the response is built again with
   * fewer edges.
   */
  mutationResults?: Map<string, unknown>
}

export interface ContextOptions extends Pick<Context, 'domain' | 'streams' | 'viewer' | 'onSlow' | 'takesCursors'> {
  /**
   * Returns loaders that are shared with the other viewers of the same execution. If absent, the context creates its
   * own.
   */
  common?: () => CommonLoaders
  shownIn?: string | null
  askedOrigin?: string | null
}

/**
 * Creates a context. Its loaders are created on first use, because small operations and most events of a stream use
 * none.
 */
export function createContext({ common, shownIn = null, askedOrigin = null, ...given }: ContextOptions): Context {
  const loaders = madeWhenAsked(() => createLoaders(given, common?.() ?? createCommonLoaders(given)))
  return { ...given, shownIn, askedOrigin, loaders }
}

/**
 * Returns a proxy that calls `make` on first use. A getter would not work: the context is copied before it reaches
 * the resolvers, and copying would evaluate the getter.
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

/** Returns the absolute URL of a path on the host at which the client reaches this server. */
export const linkTo = ({ domain, askedOrigin }: Context, path: string): string => domain.publicUrl.to(path, askedOrigin)

/**
 * Counts a mutation towards a rate.
 * @throws RateLimitedError if the viewer exceeds this rate or the rate of requests
 */
export async function takeRate(context: Context, name: RateName, points = 1): Promise<void> {
  checkRequestRate(context)
  await context.domain.rates.take(name, context.viewer, points)
}

/**
 * Called by mutations whose result union contains RateLimitedError.
 * @throws RateLimitedError if the operation exceeds the rate of requests
 */
export function checkRequestRate({ overRate }: Context): void {
  if (overRate !== undefined) throw overRate
}

/** The time after which a client may repeat the mutations that its operation had no time to execute. */
const AFTER_LONG_OPERATION_MS = 5000

/**
 * Returns a context with empty caches, for the next mutation of an operation.
 * @throws RateLimitedError if the operation has no time left for the mutation
 */
export function renewed(context: Context): Context {
  if (context.endsAt !== undefined && performance.now() > context.endsAt) {
    throw new RateLimitedError(
      'The operation took too long: this mutation was not started. Send fewer mutations in one operation.',
      AFTER_LONG_OPERATION_MS,
    )
  }
  context.loaders = createLoaders(context, createCommonLoaders(context))
  return context
}
