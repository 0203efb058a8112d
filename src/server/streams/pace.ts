import { sleep } from '../../lib/async.ts'
import type { Answer } from './answer.ts'

/** Characters of one event that cost nothing: what an ordinary event contains. */
export const FREE_CHARACTERS = 16 * 1024
/** What one viewer may receive beyond that at once, and a second, by all its subscriptions on this process. */
const BURST_CHARACTERS = 32 * 1024 * 1024
const CHARACTERS_A_SECOND = 2 * 1024 * 1024
/** A viewer past its pace receives nothing large until so much of the burst is free again: a few events at once can be merged. */
const RELEASE_CHARACTERS = 512 * 1024
/** Pause between two subscriptions of a viewer that take their turns: what the first one receives is counted before the second one is called. */
const TURN_MS = 10
/** One event of a subscription is delayed for at most so long, then the subscription ends. */
const LONGEST_DELAY_MS = 60_000

/**
 * The pace of one subscription. All subscriptions of a viewer share a budget of characters, which nothing but their own events
 * spends: neither queries and mutations nor other viewers' subscriptions do, nor does this budget ever refuse those.
 */
export interface Pace {
  /** The subscription must wait for its turn before its next event. */
  readonly isHeld: boolean
  /**
   * Counts an event's characters beyond the free ones. False where the viewer is past its pace: nothing is counted, and the event is
   * to be delivered after `turn`.
   */
  take(largeCharacters: number): boolean
  /** The same for an event that has had its turn: it is delivered, and delays the next one. */
  spend(largeCharacters: number): void
  /** Resolves when the subscription may go on, or the signal aborts. False where that would take longer than an event is delayed. */
  turn(signal: AbortSignal): Promise<boolean>
  /** How long the viewer is past its pace, in ms. */
  retryAfterMs(): number
}

export interface Paces {
  /** Joins the viewer's budget; `leave` is to be called when the subscription is over. */
  join(viewerId: string): { pace: Pace; leave(): void }
}

export interface PacesOptions {
  burst?: number
  perSecond?: number
  longestDelayMs?: number
}

/** Characters of an answer that count. */
export function largeCharactersOf({ text, discardedBytes = 0 }: Pick<Answer, 'text' | 'discardedBytes'>): number {
  return Math.max(0, text.length - FREE_CHARACTERS) + discardedBytes
}

/**
 * The budgets of this process. Each process has its own: what a budget protects is the process that executes and writes the events, and
 * a viewer with subscriptions on several processes is slowed on those where it receives too much.
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
          // Ending a subscription and beginning another one does not give a fresh budget.
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

/** What the subscriptions of one viewer have received, less what time has given back. */
class Budget {
  users = 0
  readonly #burst: number
  readonly #perMs: number
  readonly #release: number
  #spent = 0
  #at = performance.now()
  #isSpent = false
  /** Subscriptions that wait for their turns, in order. */
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

  /** Whether the viewer is past its pace: from when the burst is spent until enough of it is free again. */
  isSpent(): boolean {
    if (!this.#isSpent) return false
    this.#refill()
    if (this.#spent <= this.#release) this.#isSpent = false
    return this.#isSpent
  }

  /** Milliseconds until the viewer is within its pace again, at least 1. */
  releaseMs(): number {
    this.#refill()
    return Math.max(1, Math.ceil((this.#spent - this.#release) / this.#perMs))
  }

  /** Milliseconds until nothing of the budget is spent. */
  recoveryMs(): number {
    this.#refill()
    return Math.ceil(this.#spent / this.#perMs)
  }

  /** Resolves at its turn, or when the signal aborts. */
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
