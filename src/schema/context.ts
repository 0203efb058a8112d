import type { Viewer } from '../access/viewer.ts'
import type { App } from './app.ts'
import { createLoaders, type Loaders } from './loaders.ts'
import type { Streams } from './streams.ts'

/** What every resolver gets: who asks, whom to ask, and what was loaded already. */
export interface Context {
  app: App
  streams: Streams
  viewer: Viewer
  /** Called when the client cannot keep up with a subscription. */
  onSlow(): void
  loaders: Loaders
  /** Whether the operation wants resume points: then they are taken before what they belong to is read. */
  takesCursors: boolean
}

export interface ContextOptions extends Pick<Context, 'app' | 'streams' | 'viewer' | 'onSlow'> {
  /** The operation's text. */
  query: string
}

export function createContext({ query, ...given }: ContextOptions): Context {
  const base = { ...given, takesCursors: query.includes('streamCursor') }
  return { ...base, loaders: createLoaders(base) }
}

/**
 * Forgets what was loaded: before a mutation, and before each event of a subscription, which show things as they are then.
 * New loaders are made when the first is asked for, since most events of a stream need none.
 */
export function renewed(context: Context): Context {
  let loaders: Loaders | null = null
  const get = () => {
    loaders ??= createLoaders(context)
    return loaders
  }
  return Object.defineProperty(context, 'loaders', { configurable: true, enumerable: true, get })
}
