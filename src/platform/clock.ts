/** The source of the current time. Tests replace it. */
export interface Clock {
  /** Milliseconds since 1970 (UTC). */
  now(): number
}

export const systemClock: Clock = { now: () => Date.now() }
