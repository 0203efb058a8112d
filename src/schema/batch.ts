import DataLoader from 'dataloader'
import { GoneError } from '../lib/errors.ts'
import type { ResponseMeter } from './response-meter.ts'

/** Things asked for once in an operation, all that are asked for at one moment together. */
export class Loader<K, V> {
  readonly #load: DataLoader.BatchLoadFn<K, V>
  readonly #options: DataLoader.Options<K, V, string>
  /** Made with the first key: an operation has some sixty loaders, and asks a few. */
  #loader: DataLoader<K, V, string> | undefined

  constructor(load: DataLoader.BatchLoadFn<K, V>, options: DataLoader.Options<K, V, string>) {
    this.#load = load
    this.#options = options
  }

  load(key: K): Promise<V> {
    return this.#made().load(key)
  }

  /** Loads what may have changed since it was loaded. */
  reload(key: K): Promise<V> {
    return this.#made().clear(key).load(key)
  }

  /** Loads a key again the next time. */
  clear(key: K): void {
    this.#made().clear(key)
  }

  /** Takes as loaded what is not loaded already. */
  prime(key: K, value: V): void {
    this.#made().prime(key, value)
  }

  #made(): DataLoader<K, V, string> {
    this.#loader ??= new DataLoader(this.#load, this.#options)
    return this.#loader
  }
}

/** All that most need of one. */
export type Loadable<K, V> = Pick<Loader<K, V>, 'load'>

/** Keys in one batch at most: far more than an operation's limits allow, far fewer than a statement takes. */
const MOST_KEYS = 10_000

/** Answers come in the order of the keys; an Error among them rejects its own key only. */
export function batched<K, V>(
  load: (keys: readonly K[]) => Promise<readonly (V | Error)[]>,
  nameOf: (key: K) => string = String,
): Loader<K, V> {
  return new Loader(load, { cacheKeyFn: nameOf, maxBatchSize: MOST_KEYS })
}

/**
 * The same, but for what many viewers ask who are answered at once: it waits until all of them have got that far, which takes
 * them some ticks where they find loaded what they need before.
 */
export function batchedOverViewers<K, V>(
  load: (keys: readonly K[]) => Promise<readonly (V | Error)[]>,
  nameOf: (key: K) => string,
): Loader<K, V> {
  const batchScheduleFn = (dispatch: () => void) => void setImmediate(dispatch)
  return new Loader(load, { cacheKeyFn: nameOf, maxBatchSize: MOST_KEYS, batchScheduleFn })
}

/** The same where answers come by key; who has none has `absent`. */
export function batchedByKey<V>(load: (keys: string[]) => Promise<Map<string, V>>, absent: V): Loader<string, V> {
  return batched(async (keys) => {
    const found = await load([...keys])
    return keys.map((key) => found.get(key) ?? absent)
  })
}

/** Something of a parent that depends on arguments. */
export interface Asked<A> {
  parentId: string
  request: A
}

/** The response that something is loaded for: once it has exceeded its limit, nothing more is loaded for it. */
export interface ForResponse {
  meter: ResponseMeter | undefined
}

/**
 * For what may be long: loads a few at a time, one batch after the other. Once the response is exceeded, which is discarded then,
 * the rest is null, and is loaded when it is asked for again.
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

/** Asked of many parents: one load for each way of asking, whatever the number of parents. */
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

/** What came with something else, taken as loaded. */
export function prime<V extends { id: string }>(loader: Loader<string, V | null>, items: readonly V[]): void {
  for (const item of items) loader.prime(item.id, item)
}

/** Several at once. @throws the first failure. */
export async function loadAll<K, V>(loader: Loadable<K, V>, keys: readonly K[]): Promise<V[]> {
  return Promise.all(keys.map((key) => loader.load(key)))
}

/** What was there a moment ago. @throws GoneError where it was deleted since */
export function existing<V>(found: V | null | undefined): V {
  if (found == null) throw new GoneError()
  return found
}

/** What must be there, since something names it. @throws GoneError where it was deleted since */
export async function loadExisting<V>(loader: Loadable<string, V | null>, id: string): Promise<V> {
  return existing(await loader.load(id))
}

/** What may not be named at all: null for null. */
export async function loadOptional<V>(loader: Loadable<string, V | null>, id: string | null): Promise<V | null> {
  return id === null ? null : loader.load(id)
}
