import { CronExpressionParser } from 'cron-parser'
import { BadInputError, messageOf } from '../lib/errors.ts'
import { checkInteger } from '../lib/validate.ts'
import { instantOf, isTimeZone, wallTime } from './time-zones.ts'

/** The schedule of a plan. Exactly one of the three fields is set. */
export interface ScheduleInput {
  /**
   * A recurring schedule with five fields (minute, hour, day of month, month, day of week), in the plan's time zone.
   */
  cron?: string | null
  /** The time at which the plan fires once. */
  at?: Date | null
  /** The number of seconds from now after which the plan fires once. */
  afterSeconds?: number | null
}

/** A validated schedule with its first slot. */
export interface Schedule {
  /** The cron expression; null for a plan that fires once. */
  cron: string | null
  nextRunAt: Date
}

const LONGEST_CRON = 200
const MOST_SECONDS = 2 ** 31 - 1
const LATEST_MS = Date.UTC(9999, 11, 31)

/**
 * Validates a schedule. `field` is the path of the schedule in the input, with a trailing dot if it is an object.
 * @throws BadInputError
 */
export function checkSchedule(
  { cron, at, afterSeconds }: ScheduleInput,
  { now, timeZone }: { now: number; timeZone: string },
  field: string,
): Schedule {
  if ([cron, at, afterSeconds].filter((choice) => choice != null).length !== 1) {
    throw new BadInputError('Set exactly one of cron, at and afterSeconds.', field.replace(/\.$/, ''))
  }
  if (cron != null) return recurring(cron, { now, timeZone }, `${field}cron`)
  if (at != null) return { cron: null, nextRunAt: checkFuture(at, now, `${field}at`) }
  const seconds = checkInteger(afterSeconds as number, 1, MOST_SECONDS, `${field}afterSeconds`)
  return { cron: null, nextRunAt: new Date(now + seconds * 1000) }
}

/** Checks the time zone of a plan's cron schedule. The default is UTC. @throws BadInputError */
export function checkTimeZone(name: string | null | undefined, field: string): string {
  if (name == null) return 'UTC'
  if (isTimeZone(name)) return name
  throw new BadInputError('Unknown time zone: use an IANA name such as "Europe/Berlin" or "UTC".', field)
}

export interface Recurrence {
  cron: string
  timeZone: string
}

/** Returns the first slot of a cron schedule after a time; null if there is none. */
export function nextSlot(recurrence: Recurrence, afterMs: number): Date | null {
  try {
    return slotAfter(recurrence, afterMs)
  } catch {
    return null
  }
}

/** The maximum number of times that `nextTimes` returns. */
export const MOST_NEXT_TIMES = 5

/** Returns the next times of a plan, beginning with its next slot. A plan that fires once has only one. */
export function nextTimes({ cron, nextRunAt }: Schedule, timeZone: string): Date[] {
  const times = [nextRunAt]
  while (cron !== null && times.length < MOST_NEXT_TIMES) {
    const next = nextSlot({ cron, timeZone }, times.at(-1)?.getTime() ?? 0)
    if (next === null) break
    times.push(next)
  }
  return times
}

/**
 * Evaluates the schedule in local time. When clocks are set back, a repeated local time fires only the first time. When
 * clocks are set forward, a skipped local time fires at the change.
 */
function slotAfter({ cron, timeZone }: Recurrence, afterMs: number): Date {
  const from = wallTime(afterMs, timeZone)
  const walls = CronExpressionParser.parse(cron, { currentDate: new Date(from), tz: 'UTC' })
  for (;;) {
    const instant = instantOf(walls.next().getTime(), timeZone)
    if (instant > afterMs) return new Date(instant)
  }
}

function recurring(given: string, { now, timeZone }: { now: number; timeZone: string }, field: string): Schedule {
  const fields = given.trim().split(/\s+/)
  const cron = fields.join(' ')
  // cron-parser adds missing fields, reads a sixth field as seconds, and replaces H with a different value each time.
  if (fields.length !== 5 || cron.length > LONGEST_CRON || /(?<![a-z])h(?![a-z])/i.test(cron)) throw notCron(field)
  try {
    return { cron, nextRunAt: slotAfter({ cron, timeZone }, now) }
  } catch (error) {
    throw notCron(field, ` (${messageOf(error)})`)
  }
}

function notCron(field: string, detail = ''): BadInputError {
  const expected = 'five fields (minute, hour, day of month, month, day of week), such as "0 6 * * 1-5"'
  return new BadInputError(`Invalid cron schedule: use ${expected}${detail}.`, field)
}

function checkFuture(at: Date, now: number, field: string): Date {
  if (!(at.getTime() > now)) throw new BadInputError('The time must be in the future.', field)
  if (at.getTime() > LATEST_MS) throw new BadInputError('The time must be before the end of the year 9999.', field)
  return at
}
