import { CronExpressionParser } from 'cron-parser'
import { BadInputError, messageOf } from '../lib/errors.ts'
import { checkInteger } from '../lib/validate.ts'

/** When a plan fires: exactly one of the three. */
export interface ScheduleInput {
  /** Five fields (minute, hour, day of month, month, day of week), in UTC: again and again. */
  cron?: string | null
  /** Once, at this time. */
  at?: Date | null
  /** Once, so many seconds from now. */
  afterSeconds?: number | null
}

/** A checked schedule, with its first slot. */
export interface Schedule {
  /** Null for once. */
  cron: string | null
  nextRunAt: Date
}

const LONGEST_CRON = 200
const MOST_SECONDS = 2 ** 31 - 1
const LATEST_MS = Date.UTC(9999, 11, 31)

/** `field` is where the schedule stands in the input, with a dot at its end where it is an object. @throws BadInputError */
export function checkSchedule({ cron, at, afterSeconds }: ScheduleInput, now: number, field: string): Schedule {
  if ([cron, at, afterSeconds].filter((choice) => choice != null).length !== 1) {
    throw new BadInputError('A schedule is exactly one of cron, at and afterSeconds.', field.replace(/\.$/, ''))
  }
  if (cron != null) return recurring(cron, now, `${field}cron`)
  if (at != null) return { cron: null, nextRunAt: checkFuture(at, now, `${field}at`) }
  const seconds = checkInteger(afterSeconds as number, 1, MOST_SECONDS, `${field}afterSeconds`)
  return { cron: null, nextRunAt: new Date(now + seconds * 1000) }
}

/** The first slot of a cron schedule after a time; null where none will ever come. */
export function nextSlot(cron: string, afterMs: number): Date | null {
  try {
    return slotAfter(cron, afterMs)
  } catch {
    return null
  }
}

function slotAfter(cron: string, afterMs: number): Date {
  return CronExpressionParser.parse(cron, { currentDate: new Date(afterMs), tz: 'UTC' })
    .next()
    .toDate()
}

function recurring(given: string, now: number, field: string): Schedule {
  const fields = given.trim().split(/\s+/)
  const cron = fields.join(' ')
  // cron-parser fills in missing fields, takes a sixth for seconds, and gives H another value at each parsing.
  if (fields.length !== 5 || cron.length > LONGEST_CRON || /(?<![a-z])h(?![a-z])/i.test(cron)) throw notCron(field)
  try {
    return { cron, nextRunAt: slotAfter(cron, now) }
  } catch (error) {
    throw notCron(field, ` (${messageOf(error)})`)
  }
}

function notCron(field: string, detail = ''): BadInputError {
  const expected = 'five fields in UTC, minute, hour, day of month, month and day of week, such as "0 6 * * 1-5"'
  return new BadInputError(`That is not a cron schedule: ${expected}${detail}.`, field)
}

function checkFuture(at: Date, now: number, field: string): Date {
  if (!(at.getTime() > now)) throw new BadInputError('The time must lie in the future.', field)
  if (at.getTime() > LATEST_MS) throw new BadInputError('The time must lie before the end of the year 9999.', field)
  return at
}
