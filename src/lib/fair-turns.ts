/** Distributes database connections, or other places, fairly among requesters. */
export interface FairTurns {
  /**
   * Waits for a turn. Returns a function that the caller calls once to end the turn.
   * @param requesterId undefined for the server's own work
   * @param how `isBounded`: whether something else limits the amount of this work; such a turn uses none of the
   * `unboundedPlaces`. By default, only the server's own work is bounded
   * @throws Error after `longestWaitMs` without a turn, with the message of a pool without a free connection
   */
  take(requesterId: string | undefined, how?: Wait): Promise<() => void>
  /** Like `take`, but returns null instead of waiting. */
  takeNow(requesterId: string | undefined, how?: { isBounded?: boolean }): (() => void) | null
  /**
   * Runs a task during a turn, and returns its result.
   * @throws any error of the task or of `take`
   */
  run<T>(requesterId: string | undefined, task: () => Promise<T>, how?: Wait): Promise<T>
  /** Returns the number of waiting turns. */
  waitingCount(): number
  /** Whether all connections are in use, so the next turn has to wait. */
  isFull(): boolean
}

interface Wait {
  isBounded?: boolean
  /** The maximum wait; unlimited by default. */
  longestWaitMs?: number
}

export interface FairTurnsOptions {
  /** Returns the number of concurrent turns, such as the number of connections. The number can change over time. */
  places: () => number
  /**
   * Returns the maximum number of concurrent turns for work that is not bounded. The default is all places. The number
   * can change over time. Each requester may always have one of these turns, so that a requester with little usage does
   * not wait for long transactions of others.
   */
  unboundedPlaces?: () => number
  /**
   * When tasks have taken this long within one iteration of the event loop, the next task waits for the next iteration.
   * The statements of PGlite run in this process and never wait for I/O, so a queue of them would block all other
   * events.
   */
  yieldAfterMs?: number
  /** Returns a monotonic time in ms. The default is `performance.now`. */
  now?: () => number
}

/**
 * The server's own work gets as much time as this many requesters, because all requesters depend on claims, deliveries
 * and maintenance.
 */
const SHARE_OF_OWN_WORK = 4
/** How often the number of places is checked while no turn begins or ends. */
const LOOK_AGAIN_MS = 100

/** The message of the `pg` pool's own error, which `isOverload` recognizes. */
const NO_CONNECTION_IN_TIME = 'timeout exceeded when trying to connect'

interface Line {
  share: number
  /**
   * The time in ms that the requester has used, divided by its share. When the requester's first turn arrives, this
   * starts at `servedMs`.
   */
  usedMs: number
  /** The number of running turns for work that is not bounded. */
  runningUnbounded: number
  waiting: { bounded: (() => void)[]; unbounded: (() => void)[] }
  /** Whether the requester's last turn was for bounded work. If turns of both kinds wait, the kinds alternate. */
  wasBounded: boolean
}

/**
 * Serves the requester first that has recently used the least time. A member's statement waits for running statements,
 * but not for other requesters' queued statements. Nobody starves, because each turn adds to its requester's time, and
 * a returning requester gets no credit for its absence.
 */
export function createFairTurns({
  places,
  unboundedPlaces = places,
  yieldAfterMs = Number.POSITIVE_INFINITY,
  now = () => performance.now(),
}: FairTurnsOptions): FairTurns {
  /** The requesters with running or waiting turns. The map is cleared when no turn waits. */
  const lines = new Map<string | undefined, Line>()
  /** The value of `usedMs` of the requester that got the last turn. */
  let servedMs = 0
  let waiting = 0
  let taken = 0
  let takenUnbounded = 0
  /** When the first task of the current event-loop iteration began; null if no task has begun yet. */
  let loopTurnAt: number | null = null
  let isYielding = false
  let isLookingAgain = false

  const mayBeginUnbounded = ({ waiting: { unbounded }, runningUnbounded }: Line) =>
    unbounded.length > 0 && (runningUnbounded === 0 || takenUnbounded < unboundedPlaces())

  function next(): Line | undefined {
    let least: Line | undefined
    for (const line of lines.values()) {
      if (line.waiting.bounded.length === 0 && !mayBeginUnbounded(line)) continue
      if (least === undefined || line.usedMs < least.usedMs) least = line
    }
    return least
  }

  function mustYield(): boolean {
    if (isYielding) return true
    if (loopTurnAt === null || now() - loopTurnAt <= yieldAfterMs) return false
    isYielding = true
    setImmediate(() => {
      isYielding = false
      serve()
    })
    return true
  }

  function noteLoopTurn(): void {
    if (loopTurnAt !== null || yieldAfterMs === Number.POSITIVE_INFINITY) return
    loopTurnAt = now()
    setImmediate(() => {
      loopTurnAt = null
    })
  }

  function serve(): void {
    while (waiting > 0 && taken < places() && !mustYield()) {
      const line = next()
      if (line === undefined) break
      waiting -= 1
      const { bounded, unbounded } = line.waiting
      const isUnboundedNext = mayBeginUnbounded(line) && (line.wasBounded || bounded.length === 0)
      const beginTurn = (isUnboundedNext ? unbounded : bounded).shift()
      beginTurn?.()
    }
    if (waiting > 0) serveSoon()
  }

  /**
   * Checks for free places at intervals, because a turn can be long, and the number of places can grow before it ends.
   */
  function serveSoon(): void {
    if (isLookingAgain) return
    isLookingAgain = true
    setTimeout(() => {
      isLookingAgain = false
      serve()
    }, LOOK_AGAIN_MS)
  }

  /** Begins a turn, and returns the function that ends it. */
  function begin(line: Line, isBounded: boolean): () => void {
    taken += 1
    line.wasBounded = isBounded
    if (!isBounded) {
      takenUnbounded += 1
      line.runningUnbounded += 1
    }
    servedMs = line.usedMs
    noteLoopTurn()
    const startedAt = now()
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      taken -= 1
      if (!isBounded) {
        takenUnbounded -= 1
        line.runningUnbounded -= 1
      }
      line.usedMs += (now() - startedAt) / line.share
      if (waiting > 0) serve()
      else if (taken === 0) {
        lines.clear()
        servedMs = 0
      }
    }
  }

  function lineOf(requesterId: string | undefined): Line {
    const known = lines.get(requesterId)
    if (known !== undefined) {
      known.usedMs = Math.max(known.usedMs, servedMs)
      return known
    }
    const share = requesterId === undefined ? SHARE_OF_OWN_WORK : 1
    const waiting = { bounded: [], unbounded: [] }
    const line: Line = { share, usedMs: servedMs, runningUnbounded: 0, waiting, wasBounded: false }
    lines.set(requesterId, line)
    return line
  }

  function takeNow(requesterId: string | undefined, { isBounded = requesterId === undefined } = {}) {
    if (waiting > 0 || taken >= places() || mustYield()) return null
    const line = lineOf(requesterId)
    const isAllowed = isBounded || line.runningUnbounded === 0 || takenUnbounded < unboundedPlaces()
    return isAllowed ? begin(line, isBounded) : null
  }

  function take(
    requesterId: string | undefined,
    { isBounded = requesterId === undefined, longestWaitMs = Number.POSITIVE_INFINITY }: Wait = {},
  ): Promise<() => void> {
    const line = lineOf(requesterId)
    return new Promise((resolve, reject) => {
      const queue = line.waiting[isBounded ? 'bounded' : 'unbounded']
      const timer = Number.isFinite(longestWaitMs) ? setTimeout(giveUp, longestWaitMs) : undefined
      const beginTurn = () => {
        clearTimeout(timer)
        resolve(begin(line, isBounded))
      }
      function giveUp(): void {
        queue.splice(queue.indexOf(beginTurn), 1)
        waiting -= 1
        reject(new Error(NO_CONNECTION_IN_TIME))
      }
      waiting += 1
      queue.push(beginTurn)
      serve()
    })
  }

  return {
    take,
    takeNow,
    async run(requesterId, task, how) {
      const end = takeNow(requesterId, how) ?? (await take(requesterId, how))
      try {
        return await task()
      } finally {
        end()
      }
    },
    waitingCount: () => waiting,
    isFull: () => taken >= places(),
  }
}
