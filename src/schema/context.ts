import type { RateName } from '../access/rates.ts'
import type { Viewer } from '../access/viewer.ts'
import type { RateLimitedError } from '../lib/errors.ts'
import type { Domain } from './domain.ts'
import { type CommonLoaders, createCommonLoaders } from './loaders.ts'
import type { ResponseMeter } from './response-meter.ts'
import type { Streams } from './streams.ts'
import { createLoaders, type Loaders } from './viewer-loaders.ts'

/** What every resolver gets: who asks, whom to ask, and what was loaded already. */
export interface Context {
  domain: Domain
  streams: Streams
  viewer: Viewer
  /** Called when the client cannot keep up with a subscription. */
  onSlow(): void
  loaders: Loaders
  /** Whether the operation wants resume points: then they are taken before what they belong to is read. */
  takesCursors: boolean
  /** The fields that it may come to. */
  weight?: number
  /** The operation is past the rate of requests: a mutation that has an answer for that gives it. */
  overRate?: RateLimitedError
  /** A space that the viewer is known to be a member of, since only members are told what is being answered; else null. */
  shownIn: string | null
  /** Counts the response of this execution; absent where nothing bounds it. */
  meter?: ResponseMeter
  /** The results of an operation's mutations by response key: kept while its response is put together again with fewer edges. */
  mutationResults?: Map<string, unknown>
}

export interface ContextOptions extends Pick<Context, 'domain' | 'streams' | 'viewer' | 'onSlow' | 'takesCursors'> {
  /** What others load who are answered the same at the same time; of its own otherwise. */
  common?: () => CommonLoaders
  shownIn?: string | null
}

/** Loaders are made when the first is asked for: a small operation, and most events of a stream, need none. */
export function createContext({ common, shownIn = null, ...given }: ContextOptions): Context {
  const loaders = madeWhenAsked(() => createLoaders(given, common?.() ?? createCommonLoaders(given)))
  return { ...given, shownIn, loaders }
}

/** Stands for what `make` makes, also where the context is copied on its way to the resolvers, which would read an accessor. */
function madeWhenAsked<T extends object>(make: () => T): T {
  let made: T | undefined
  return new Proxy({} as T, {
    get(_, key) {
      made ??= make()
      return Reflect.get(made, key)
    },
  })
}

/** Counts what a mutation does. @throws RateLimitedError past its rate, or that of all requests */
export async function takeRate(context: Context, name: RateName, points = 1): Promise<void> {
  checkRequestRate(context)
  await context.domain.rates.take(name, context.viewer, points)
}

/** For a mutation whose result may be a RateLimitedError. @throws RateLimitedError if the operation is past the rate of requests */
export function checkRequestRate({ overRate }: Context): void {
  if (overRate !== undefined) throw overRate
}

/** Forgets what was loaded: before a mutation. */
export function renewed(context: Context): Context {
  context.loaders = createLoaders(context, createCommonLoaders(context))
  return context
}
