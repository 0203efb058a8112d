// Slows down viewers that receive too much. Gives each viewer a budget of characters, and merges events that wait
// for the budget.
import { sleep } from '../lib/async.ts'
import type { Answer } from './answer.ts'
import type { Delivery } from './feed.ts'

/** The size of an ordinary event, in characters. Only characters beyond this size count towards the budget. */
export const FREE_CHARACTERS = 16 * 1024
/**
 * The budget of one viewer for the characters beyond this size, over all its subscriptions in this process: the
 * burst, and the refill per second.
 */
const BURST_CHARACTERS = 32 * 1024 * 1024
const CHARACTERS_A_SECOND = 2 * 1024 * 1024
/**
 * A viewer that has exceeded its pace receives no large event until this much of the burst is free again, so that
 * several waiting events can be merged.
 */
const RELEASE_CHARACTERS = 512 * 1024
/**
 * The pause between the turns of two subscriptions of one viewer. In this time, the events of the first
 * subscription are counted.
 */
const TURN_MS = 10
/** The maximum delay of one event. If it is exceeded, the subscription ends. */
const LONGEST_DELAY_MS = 60_000

/**
 * The pace of one subscription. All subscriptions of a viewer share a budget of characters. Queries, mutations and
 * the subscriptions of other viewers do not use this budget.
 */
export interface Pace {
  /** Whether the subscription must wait for its turn before its next event. */
  readonly isHeld: boolean
  /**
   * Counts the characters by which an event exceeds the size of an ordinary one. If the viewer exceeds its pace,
   * returns false and counts nothing. The event must then wait for `turn`.
   */
  take(largeCharacters: number): boolean
  /**
   * Counts an event that has waited for its turn. The event is delivered even if it exceeds the budget, which then
   * delays the next event.
   */
  spend(largeCharacters: number): void
  /**
   * Waits for the subscription's turn. Resolves with true when the subscription may continue or the signal aborts,
   * and with false when the longest delay has passed.
   */
  turn(signal: AbortSignal): Promise<boolean>
  /** The time until the viewer is within its pace again, in ms. */
  retryAfterMs(): number
}

export interface Paces {
  /** Joins the viewer's budget. `leave` must be called when the subscription ends. */
  join(viewerId: string): { pace: Pace; leave(): void }
}

export interface PacesOptions {
  burst?: number
  perSecond?: number
  longestDelayMs?: number
}

/** Returns the number of characters of an answer that count towards the pace. */
export function largeCharactersOf({ text, discardedBytes = 0 }: Pick<Answer, 'text' | 'discardedBytes'>): number {
  return Math.max(0, text.length - FREE_CHARACTERS) + discardedBytes
}

/**
 * Creates the budgets of this process. They are not shared between processes, because a budget protects the process
 * that computes and writes the answers. A viewer with subscriptions on several processes is slowed down only on
 * those where it receives too much.
 */
export function createPaces(options: PacesOptions = {}): Paces {
  const budgets = new Map<string, Budget>()
  const { longestDelayMs = LONGEST_DELAY_MS } = options

  return {
    join(viewerId) {
      const budget = budgets.get(viewerId) ?? new Budget(options)
      budgets.set(viewerId, budget)
      budget.users += 1
      return {
        pace: paceOf(budget, longestDelayMs),
        leave() {
          budget.users -= 1
          if (budget.users > 0) return
          // The budget is kept for a while, so that a viewer does not get a new one by reconnecting.
          setTimeout(() => {
            if (budget.users === 0 && budgets.get(viewerId) === budget) budgets.delete(viewerId)
          }, budget.recoveryMs()).unref()
        },
      }
    },
  }
}

function paceOf(budget: Budget, longestDelayMs: number): Pace {
  let isHeld = false
  function spend(largeCharacters: number): void {
    if (largeCharacters === 0) return
    budget.spend(largeCharacters)
    isHeld = budget.isSpent()
  }
  return {
    get isHeld() {
      return isHeld
    },
    spend,
    take(largeCharacters) {
      if (largeCharacters === 0) return true
      isHeld = budget.isSpent()
      if (isHeld) return false
      spend(largeCharacters)
      return true
    },
    async turn(signal) {
      const isOver = new AbortController()
      const waited = budget.wait(AbortSignal.any([signal, isOver.signal])).then(() => true)
      const late = sleep(longestDelayMs, AbortSignal.any([signal, isOver.signal])).then(() => signal.aborted)
      const isInTime = await Promise.race([waited, late])
      isOver.abort()
      if (isInTime) isHeld = false
      return isInTime
    },
    retryAfterMs: () => budget.releaseMs(),
  }
}

/** The number of characters that the subscriptions of one viewer have received, minus the refill over time. */
class Budget {
  users = 0
  readonly #burst: number
  readonly #perMs: number
  readonly #release: number
  #spent = 0
  #at = performance.now()
  #isSpent = false
  /** Subscriptions that wait for their turn, in order. */
  readonly #waiting = new Set<() => void>()
  #timer: NodeJS.Timeout | null = null

  constructor({ burst = BURST_CHARACTERS, perSecond = CHARACTERS_A_SECOND }: PacesOptions) {
    this.#burst = burst
    this.#perMs = perSecond / 1000
    this.#release = Math.max(0, burst - Math.min(RELEASE_CHARACTERS, burst / 2))
  }

  spend(characters: number): void {
    this.#refill()
    this.#spent += characters
    if (this.#spent > this.#burst) this.#isSpent = true
  }

  /**
   * Whether the viewer exceeds its pace. This lasts from the moment the burst is used up until enough of it is free
   * again.
   */
  isSpent(): boolean {
    if (!this.#isSpent) return false
    this.#refill()
    if (this.#spent <= this.#release) this.#isSpent = false
    return this.#isSpent
  }

  /** The time until enough of the burst is free again, in ms, at least 1. */
  releaseMs(): number {
    this.#refill()
    return Math.max(1, Math.ceil((this.#spent - this.#release) / this.#perMs))
  }

  /** The time until the whole budget is free, in ms. */
  recoveryMs(): number {
    this.#refill()
    return Math.ceil(this.#spent / this.#perMs)
  }

  /** Resolves at the subscription's turn, or when the signal aborts. */
  wait(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const go = () => {
        this.#waiting.delete(go)
        signal.removeEventListener('abort', go)
        resolve()
      }
      this.#waiting.add(go)
      signal.addEventListener('abort', go)
      this.#callNext(TURN_MS)
    })
  }

  #callNext(afterMs: number): void {
    if (this.#timer !== null) return
    const call = () => {
      this.#timer = null
      const [first] = this.#waiting
      if (first === undefined) return
      if (!this.isSpent()) first()
      if (this.#waiting.size > 0) this.#callNext(TURN_MS)
    }
    const waitMs = this.isSpent() ? Math.max(afterMs, this.releaseMs()) : afterMs
    this.#timer = setTimeout(call, Math.min(waitMs, LONGEST_DELAY_MS))
    this.#timer.unref()
  }

  #refill(): void {
    const now = performance.now()
    this.#spent = Math.max(0, this.#spent - (now - this.#at) * this.#perMs)
    this.#at = now
  }
}

/** The fields that the merging of events reads. */
interface Mergeable {
  type?: string
  [field: string]: unknown
}

/** Events that append text. Two of them can be joined if the listed fields have equal values. */
const DELTAS: Readonly<Record<string, readonly string[]>> = {
  MessageTextDelta: ['messageId', 'partIndex'],
  RunTextDelta: ['step'],
  RunReasoningDelta: ['step'],
  RunToolInputDelta: ['step', 'toolCallId'],
}

/**
 * Events about a changed entity. The entity is read at delivery, so only the first and the last event of a kind
 * carry information.
 */
const CHANGES: Readonly<Record<string, readonly string[]>> = {
  MessageUpdated: ['messageId'],
  MessagePartChanged: ['messageId', 'partIndex'],
  SpaceUpdated: [],
  RunToolCallChanged: ['toolCallId'],
}

/** The maximum length of a joined delta in UTF-16 units, so that merging creates no large event. */
const MOST_JOINED = 8 * 1024

/**
 * Merges the waiting events of a subscriber that exceeds its pace. Consecutive deltas of one text become one delta.
 * If one entity changed several times, only the first and the last change remain. A client can resume after any of
 * the remaining events without loss. This is because a joined delta has the cursor of its last delta, and each
 * removed change is followed by the last change of its kind.
 */
export function mergeDeliveries<E extends object>(waiting: readonly Delivery<E>[]): Delivery<E>[] {
  const merged: Delivery<E>[] = []
  for (const delivery of withoutSuperseded(waiting)) {
    const joined = joinedDelta(merged.at(-1), delivery)
    if (joined === null) merged.push(delivery)
    else merged[merged.length - 1] = joined
  }
  return merged
}

function withoutSuperseded<E extends object>(waiting: readonly Delivery<E>[]): Delivery<E>[] {
  const keys = waiting.map(({ event }) => keyOf(event as Mergeable, CHANGES))
  const first = new Map<string, number>()
  const last = new Map<string, number>()
  for (const [index, key] of keys.entries()) {
    if (key === null) continue
    if (!first.has(key)) first.set(key, index)
    last.set(key, index)
  }
  return waiting.filter((_, index) => {
    const key = keys[index] ?? null
    return key === null || first.get(key) === index || last.get(key) === index
  })
}

/** Joins two consecutive deltas of one text. Returns null for any other two events. */
function joinedDelta<E extends object>(before: Delivery<E> | undefined, delivery: Delivery<E>): Delivery<E> | null {
  if (before === undefined) return null
  const [first, second] = [before.event as Mergeable, delivery.event as Mergeable]
  const key = keyOf(second, DELTAS)
  if (key === null || keyOf(first, DELTAS) !== key) return null
  const { delta: start, offset } = first
  const { delta: rest } = second
  if (typeof start !== 'string' || typeof rest !== 'string' || start.length + rest.length > MOST_JOINED) return null
  if (typeof offset === 'number' && second['offset'] !== offset + start.length) return null
  if (first['confidential'] !== second['confidential']) return null
  const own = typeof offset === 'number' ? { delta: start + rest, offset } : { delta: start + rest }
  return { shareKey: null, event: { ...delivery.event, ...own } }
}

function keyOf(event: Mergeable, kinds: Readonly<Record<string, readonly string[]>>): string | null {
  const { type = '' } = event
  const fields = Object.hasOwn(kinds, type) ? kinds[type] : undefined
  return fields === undefined ? null : JSON.stringify([type, ...fields.map((field) => event[field])])
}
