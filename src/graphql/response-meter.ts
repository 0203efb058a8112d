import type { ResponsePath } from './response-path.ts'
import { instancePath, isWithin, selectionPath } from './response-path.ts'

/** The maximum number of leaves in one response. Short leaves count too, because each leaf takes time to resolve. */
const MOST_LEAVES = 30_000
/**
 * A measuring execution continues up to this multiple of the limit, so that it can find repetitions and the size of
 * each edge.
 */
const MEASURED_LIMITS = 4
/** Values shorter than this are not checked for repetition. */
const LONG_VALUE_BYTES = 1024

/** A connection that a measuring execution resolved. */
export interface MeasuredConnection {
  path: ResponsePath
  edges: number
  /** Whether the edges that are kept come from the end of the page. */
  fromEnd: boolean
}

/** The number of edges that each connection keeps, by the connection's path in the response (see `instancePath`). */
export type EdgeCuts = ReadonlyMap<string, number>

export const NO_CUTS: EdgeCuts = new Map()

export interface ResponseMeterOptions {
  /** The limit in bytes. */
  limit: number
  isMeasuring?: boolean
  cuts?: EdgeCuts
}

/**
 * Counts the bytes that one execution of an operation adds to the response. Resolvers call it (see bounded.ts).
 * Once the limit is exceeded, the execution is abandoned: every further resolver returns a promise that never
 * settles. The resolvers do not throw errors instead, because each of thousands of errors would be wrapped, and
 * graphql-js does not handle rejections of list items. A measuring meter also records the size of each list item,
 * from which `planCuts` calculates how many edges fit.
 */
export class ResponseMeter {
  readonly limit: number
  readonly cuts: EdgeCuts
  readonly isMeasuring: boolean
  isExceeded = false
  /** Resolves when the limit is exceeded. */
  readonly whenExceeded: Promise<void>
  /** The number of bytes of JSON counted so far. */
  bytes = 0
  leaves = 0
  /**
   * The total cost that a measuring execution has counted, in the unit of `costOf`. `items` contains the cost of
   * the fields in each list item, and `itemsOfList` the cost of the items themselves.
   */
  cost = 0
  readonly items = new Map<ResponsePath, number>()
  readonly itemsOfList = new Map<ResponsePath, number>()
  readonly connections: MeasuredConnection[] = []
  /**
   * The number of bytes of long values. `repeatedBytes` counts only those that the request selects in more than one
   * place.
   */
  longBytes = 0
  repeatedBytes = 0
  readonly #mostBytes: number
  #onExceeded: () => void = () => {}
  #never: Promise<never> | undefined
  readonly #firstSelections = new Map<string, string>()

  constructor({ limit, isMeasuring = false, cuts = NO_CUTS }: ResponseMeterOptions) {
    this.limit = limit
    this.cuts = cuts
    this.isMeasuring = isMeasuring
    this.#mostBytes = isMeasuring ? limit * MEASURED_LIMITS : limit
    this.whenExceeded = new Promise((resolve) => {
      this.#onExceeded = resolve
    })
  }

  /**
   * A promise that resolvers return once the limit is exceeded. It is garbage-collected with the meter, together
   * with everything that awaits the promise.
   */
  get never(): Promise<never> {
    this.#never ??= new Promise(() => {})
    return this.#never
  }

  /** Counts the keys of a list's items before the items are resolved. `bytes` and `leaves` are those of one item. */
  addItems(path: ResponsePath, count: number, { bytes, leaves }: { bytes: number; leaves: number }): void {
    this.leaves += count * leaves
    if (this.isMeasuring) {
      this.#charge(path, this.costOf(count * bytes, count * leaves))
      this.itemsOfList.set(path, this.costOf(bytes, leaves))
    }
    this.#add(count * bytes)
  }

  /** Counts the value of a leaf. */
  addValue(path: ResponsePath, bytes: number, contentKey: () => string): void {
    if (this.isMeasuring) {
      this.#charge(path, bytes)
      if (bytes >= LONG_VALUE_BYTES) this.#noteRepetition(path, bytes, contentKey())
    }
    this.#add(bytes)
  }

  /** The number of bytes left for a leaf. Larger sizes do not have to be measured exactly. */
  get remainingBytes(): number {
    return this.#mostBytes - this.bytes
  }

  /**
   * Returns the cost of values in the unit that is used to plan cuts. The unit is bytes. If there are many short
   * leaves, the cost is their share of the maximum number of leaves, converted to bytes.
   */
  costOf(bytes: number, leaves: number): number {
    return Math.max(bytes, leaves * (this.limit / MOST_LEAVES))
  }

  #add(bytes: number): void {
    this.bytes += bytes
    if (this.bytes <= this.#mostBytes && this.leaves <= MOST_LEAVES) return
    this.isExceeded = true
    this.#onExceeded()
  }

  #charge(path: ResponsePath, cost: number): void {
    this.cost += cost
    for (let at: ResponsePath | undefined = path; at !== undefined; at = at.prev) {
      if (typeof at.key === 'number') this.items.set(at, (this.items.get(at) ?? 0) + cost)
    }
  }

  #noteRepetition(path: ResponsePath, bytes: number, contentKey: string): void {
    this.longBytes += bytes
    const selection = selectionPath(path)
    const first = this.#firstSelections.get(contentKey)
    if (first === undefined) this.#firstSelections.set(contentKey, selection)
    else if (first !== selection) this.repeatedBytes += bytes
  }
}

/** The share of the limit that a shortened response should use. The rest allows for errors in the estimate. */
const AIM = 0.95

interface Sized {
  connection: MeasuredConnection
  /** The size of each edge by index, including nested content. */
  edges: number[]
  total: number
  /** Connections inside this connection's edges. */
  nested: Sized[]
}

/**
 * Decides how many edges each connection keeps so that the response fits. Sibling connections share the available
 * size. Each connection keeps at least one edge. If this edge alone is too large, the connections nested in it are
 * cut too. Returns null if nothing can be cut.
 */
export function planCuts(meter: ResponseMeter): EdgeCuts | null {
  const cuts = new Map(meter.cuts)
  const roots = nest(sizesOf(meter))
  const inConnections = roots.reduce((sum, { total }) => sum + total, 0)
  const isCut = share(roots, AIM * meter.limit - (meter.cost - inConnections), cuts)
  return isCut ? cuts : null
}

/** Returns whether anything was cut. */
function share(connections: readonly Sized[], available: number, cuts: Map<string, number>): boolean {
  let isCut = false
  let left = available
  // The smallest connection comes first, so that the others can use the bytes that it leaves.
  const bySize = connections.toSorted((one, other) => one.total - other.total)
  for (const [index, sized] of bySize.entries()) {
    const part = left / (bySize.length - index)
    const { isCut: here, kept } = sized.total <= part ? { isCut: false, kept: sized.total } : cut(sized, part, cuts)
    isCut ||= here
    left -= kept
  }
  return isCut
}

function cut({ connection, edges, nested }: Sized, available: number, cuts: Map<string, number>) {
  const inReadingOrder = connection.fromEnd ? edges.toReversed() : edges
  let count = 0
  let kept = 0
  for (const size of inReadingOrder) {
    if (count > 0 && kept + size > available) break
    count += 1
    kept += size
  }
  const isCut = count < connection.edges
  if (isCut) cuts.set(instancePath(connection.path), count)
  if (count !== 1 || kept <= available) return { isCut, kept }
  const only = connection.fromEnd ? edges.length - 1 : 0
  const inside = nested.filter(({ connection: { path } }) => isWithin(path, connection.path, only))
  const insideSize = inside.reduce((sum, { total }) => sum + total, 0)
  const inner = new Map<string, number>()
  const isInnerCut = share(inside, available - (kept - insideSize), inner)
  // In the next execution, the only remaining edge has index 0.
  for (const [path, keep] of inner) cuts.set(atFirstEdge(path, instancePath(connection.path), only), keep)
  return { isCut: isCut || isInnerCut, kept }
}

/** Returns the path of a nested connection after the outer connection was cut to the edge `index`. */
function atFirstEdge(path: string, ofConnection: string, index: number): string {
  const [, field = '', ...rest] = path.slice(ofConnection.length).split('.')
  return [ofConnection, field, ...(rest[0] === String(index) ? ['0', ...rest.slice(1)] : rest)].join('.')
}

function sizesOf(meter: ResponseMeter): Sized[] {
  const byConnection = new Map(
    meter.connections.map(({ path, edges }) => [path, Array.from({ length: edges }, () => 0)]),
  )
  // Paths have the form connection → edges → index. An operation can select `edges` more than once.
  for (const [item, size] of meter.items) {
    const edges = item.prev?.prev && byConnection.get(item.prev.prev)
    if (edges !== undefined) edges[item.key as number]! += size
  }
  for (const [list, size] of meter.itemsOfList) {
    const edges = list.prev && byConnection.get(list.prev)
    edges?.forEach((_, index) => {
      edges[index]! += size
    })
  }
  return meter.connections.map((connection) => {
    const edges = byConnection.get(connection.path) ?? []
    return { connection, edges, total: edges.reduce((sum, size) => sum + size, 0), nested: [] }
  })
}

/** Nests each connection in the connection whose edges contain it. Returns the outermost connections. */
function nest(all: readonly Sized[]): Sized[] {
  const byPath = new Map(all.map((sized) => [sized.connection.path, sized]))
  return all.filter((sized) => {
    for (let at = sized.connection.path.prev; at !== undefined; at = at.prev) {
      const outer = byPath.get(at)
      if (outer === undefined) continue
      outer.nested.push(sized)
      return false
    }
    return true
  })
}
