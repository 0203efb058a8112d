import DataLoader from 'dataloader'
import { GoneError } from '../lib/errors.ts'
import type { ResponseMeter } from './response-meter.ts'

/** A DataLoader that is created on first use. It loads each key once, and all keys of a tick in one batch. */
export class Loader<K, V> {
  readonly #load: DataLoader.BatchLoadFn<K, V>
  readonly #options: DataLoader.Options<K, V, string>
  /** Created when the first key is loaded, because an operation has about sixty loaders and uses only a few. */
  #loader: DataLoader<K, V, string> | undefined

  constructor(load: DataLoader.BatchLoadFn<K, V>, options: DataLoader.Options<K, V, string>) {
    this.#load = load
    this.#options = options
  }

  load(key: K): Promise<V> {
    return this.#made().load(key)
  }

  /** Loads a key again, because its value may have changed. */
  reload(key: K): Promise<V> {
    return this.#made().clear(key).load(key)
  }

  /** Drops a key from the cache, so that it is loaded again next time. */
  clear(key: K): void {
    this.#made().clear(key)
  }

  /** Caches a value, unless a value for the key is already cached. */
  prime(key: K, value: V): void {
    this.#made().prime(key, value)
  }

  #made(): DataLoader<K, V, string> {
    this.#loader ??= new DataLoader(this.#load, this.#options)
    return this.#loader
  }
}

/** The only part of a loader that most callers need. */
export type Loadable<K, V> = Pick<Loader<K, V>, 'load'>

/**
 * The maximum number of keys in one batch. It is far higher than the number of keys that an operation may load, and
 * far lower than the number of parameters that a statement may have.
 */
const MOST_KEYS = 10_000

/**
 * Creates a loader. `load` must return the values in the order of the keys. An Error among the values rejects only
 * its own key.
 */
export function batched<K, V>(
  load: (keys: readonly K[]) => Promise<readonly (V | Error)[]>,
  nameOf: (key: K) => string = String,
): Loader<K, V> {
  return new Loader(load, { cacheKeyFn: nameOf, maxBatchSize: MOST_KEYS })
}

/**
 * Like `batched`, for values that depend on the viewer. When an operation is executed on one event for many
 * viewers, these executions reach a field in different ticks. Therefore, the batch is dispatched in a later phase
 * of the event loop.
 */
export function batchedOverViewers<K, V>(
  load: (keys: readonly K[]) => Promise<readonly (V | Error)[]>,
  nameOf: (key: K) => string,
): Loader<K, V> {
  const batchScheduleFn = (dispatch: () => void) => void setImmediate(dispatch)
  return new Loader(load, { cacheKeyFn: nameOf, maxBatchSize: MOST_KEYS, batchScheduleFn })
}

/** Like `batched`, for a `load` that returns a map. If the map lacks a key, its value is `absent`. */
export function batchedByKey<V>(load: (keys: string[]) => Promise<Map<string, V>>, absent: V): Loader<string, V> {
  return batched(async (keys) => {
    const found = await load([...keys])
    return keys.map((key) => found.get(key) ?? absent)
  })
}

/** A parent, and the arguments of one of its fields. */
export interface Asked<A> {
  parentId: string
  request: A
}

/**
 * The response for which a value is loaded. Once the response has exceeded its size limit, no more values are
 * loaded for it.
 */
export interface ForResponse {
  meter: ResponseMeter | undefined
}

/**
 * Like `batched`, for values that may be long. Loads them in chunks, one after the other. A response that has
 * exceeded its limit will be discarded, so its remaining values are null and are not cached.
 */
export function batchedInChunks<K extends ForResponse, V>(
  size: number,
  load: (keys: K[]) => Promise<readonly (V | null)[]>,
  nameOf: (key: K) => string,
): Loadable<K, V | null> {
  const loader = new Loader<K, V | null>(
    async (keys) => {
      const found: (V | null)[] = []
      for (let from = 0; from < keys.length; from += size) {
        const some = keys.slice(from, from + size)
        const isNeeded = some.some(({ meter }) => meter?.isExceeded !== true)
        if (!isNeeded) for (const key of some) loader.clear(key)
        found.push(...(isNeeded ? await load(some) : some.map(() => null)))
      }
      return found
    },
    { cacheKeyFn: nameOf, maxBatchSize: MOST_KEYS },
  )
  return loader
}

const wayOf = ({ request }: Asked<unknown>) => JSON.stringify(request)
const nameOfAsked = (asked: Asked<unknown>) => `${asked.parentId} ${wayOf(asked)}`

/** Like `batched`, for a field of many parents. Calls `load` once for each distinct set of arguments. */
export function batchedByRequest<A, V>(
  load: (parentIds: string[], request: A) => Promise<readonly V[]>,
): Loader<Asked<A>, Exclude<V, Error>> {
  return batched((asked: readonly Asked<A>[]) => loadEachWay(asked, load), nameOfAsked)
}

async function loadEachWay<A, V>(
  asked: readonly Asked<A>[],
  load: (parentIds: string[], request: A) => Promise<readonly V[]>,
): Promise<(Exclude<V, Error> | Error)[]> {
  const answers = new Map<Asked<A>, V>()
  const loadWay = async (group: Asked<A>[]) => {
    const parentIds = group.map(({ parentId }) => parentId)
    const found = await load(parentIds, group[0]!.request)
    for (const [index, one] of group.entries()) answers.set(one, found[index] as V)
  }
  await Promise.all([...Map.groupBy(asked, wayOf).values()].map(loadWay))
  return asked.map((one) => answers.get(one) as Exclude<V, Error> | Error)
}

/** Caches rows that another query returned. */
export function prime<V extends { id: string }>(loader: Loader<string, V | null>, items: readonly V[]): void {
  for (const item of items) loader.prime(item.id, item)
}

/** Loads several keys at once. @throws the first error */
export async function loadAll<K, V>(loader: Loadable<K, V>, keys: readonly K[]): Promise<V[]> {
  return Promise.all(keys.map((key) => loader.load(key)))
}

/**
 * Returns a row that existed shortly before.
 * @throws GoneError if the row has been deleted in the meantime
 */
export function existing<V>(found: V | null | undefined): V {
  if (found == null) throw new GoneError()
  return found
}

/** Loads a row that another row refers to. @throws GoneError if it has been deleted in the meantime */
export async function loadExisting<V>(loader: Loadable<string, V | null>, id: string): Promise<V> {
  return existing(await loader.load(id))
}

/** Loads an optional reference. Returns null if `id` is null. */
export async function loadOptional<V>(loader: Loadable<string, V | null>, id: string | null): Promise<V | null> {
  return id === null ? null : loader.load(id)
}
