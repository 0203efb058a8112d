/** The kinds of schedules that the form offers. CRON is any other schedule; AFTER and AT fire once. */
export type Repetition = 'HOURLY' | 'DAILY' | 'WEEKDAYS' | 'WEEKLY' | 'MONTHLY' | 'CRON' | 'AFTER' | 'AT'

export interface ScheduleParts {
  repetition: Repetition
  minute: number
  hour: number
  /** 0 (Sunday) to 6. */
  weekday: number
  /** 1 to 31. */
  day: number
}

export const WEEKDAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
]

/** Returns the cron expression of a schedule; null for schedules that have none. */
export function cronOf({ repetition, minute, hour, weekday, day }: ScheduleParts): string | null {
  switch (repetition) {
    case 'HOURLY':
      return `${minute} * * * *`
    case 'DAILY':
      return `${minute} ${hour} * * *`
    case 'WEEKDAYS':
      return `${minute} ${hour} * * 1-5`
    case 'WEEKLY':
      return `${minute} ${hour} * * ${weekday}`
    case 'MONTHLY':
      return `${minute} ${hour} ${day} * *`
    default:
      return null
  }
}

export const DEFAULT_PARTS: ScheduleParts = { repetition: 'WEEKDAYS', minute: 0, hour: 8, weekday: 1, day: 1 }

/** Returns the parts of a cron expression; of the kind CRON if the form has no fields for it. */
export function partsOf(cron: string): ScheduleParts {
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = cron.trim().split(/\s+/)
  const parts = { ...DEFAULT_PARTS, minute: Number(minute), hour: Number(hour) }
  const repeated: ScheduleParts[] = [
    { ...parts, hour: DEFAULT_PARTS.hour, repetition: 'HOURLY' },
    { ...parts, repetition: 'DAILY' },
    { ...parts, repetition: 'WEEKDAYS' },
    { ...parts, weekday: Number(weekday) % 7, repetition: 'WEEKLY' },
    { ...parts, day: Number(day), repetition: 'MONTHLY' },
  ]
  const normal = [minute, hour, day, month, weekday === '7' ? '0' : weekday].join(' ')
  return repeated.find((one) => cronOf(one) === normal) ?? { ...DEFAULT_PARTS, repetition: 'CRON' }
}

/** Describes a cron expression: `0 8 * * 1-5` as “Monday to Friday at 08:00”. Null if a field has another form. */
export function wordsOfCron(cron: string): string | null {
  const fields = cron.trim().split(/\s+/)
  if (fields.length !== 5) return null
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = fields
  const time = wordsOfTime(minute, hour)
  const days = wordsOfDays(day, month, weekday)
  if (time === null || days === null) return null
  if (time.startsWith('at ')) return `${days === '' ? 'every day' : days} ${time}`
  return days === '' ? time : `${time}, ${days}`
}

/** Returns words such as `at 08:00 and 12:00`, `every 5 minutes`, `every hour at :05` or `every 2 hours at :00`. */
function wordsOfTime(minute: string, hour: string): string | null {
  const step = /^\*\/(\d+)$/
  const everyHours = step.exec(hour)?.[1]
  const everyMinutes = minute === '*' ? '1' : step.exec(minute)?.[1]
  if (everyMinutes !== undefined) {
    const often = everyMinutes === '1' ? 'every minute' : `every ${everyMinutes} minutes`
    if (hour === '*') return often
    const [from, to] = rangeOf(hour, 23) ?? []
    return from === undefined ? null : `${often}, from ${clock(from, 0)} to ${clock(to ?? from, 59)}`
  }
  const minutes = listOf(minute, 59)
  if (minutes === null) return null
  const past = minutes.map((one) => `:${two(one)}`).join(' and ')
  if (hour === '*' || everyHours === '1') return `every hour at ${past}`
  if (everyHours !== undefined) return `every ${everyHours} hours at ${past}`
  const hours = listOf(hour, 23)
  if (hours === null) {
    const range = rangeOf(hour, 23)
    return range === null ? null : `every hour from ${range[0]} to ${range[1]} o’clock, at ${past}`
  }
  return `at ${inWords(hours.flatMap((one) => minutes.map((at) => clock(one, at))))}`
}

/** Returns words such as `every Monday`, `Monday to Friday`, `on day 1 of every month` or `on 24 December`; '' for every day. */
function wordsOfDays(day: string, month: string, weekday: string): string | null {
  const months = month === '*' ? [] : listOf(month, 12)
  if (months === null || months.includes(0)) return null
  const names = inWords(months.map((one) => MONTHS[one - 1] ?? ''))
  const inMonths = names === '' ? '' : ` in ${names}`
  if (day === '*' && weekday === '*') return inMonths === '' ? '' : `every day${inMonths}`
  if (weekday === '*') return wordsOfDates(day, names)
  // If a day of the month and a weekday are both set, cron fires on either. Few people expect this, so the expression is shown
  // unchanged.
  return day === '*' ? wordsOfWeekdays(weekday, inMonths) : null
}

function wordsOfDates(day: string, months: string): string | null {
  if (/^l$/i.test(day)) return `on the last day of ${months === '' ? 'every month' : months}`
  const days = listOf(day, 31)
  if (days === null || days.includes(0)) return null
  const dates = inWords(days.map(String))
  return months === '' ? `on day ${dates} of every month` : `on ${dates} ${months}`
}

function wordsOfWeekdays(weekday: string, inMonths: string): string | null {
  const range = rangeOf(weekday, 7)
  if (range !== null) return `${nameOf(range[0])} to ${nameOf(range[1])}${inMonths}`
  const weekdays = listOf(weekday, 7)
  return weekdays === null ? null : `every ${inWords(weekdays.map(nameOf))}${inMonths}`
}

const nameOf = (weekday: number) => WEEKDAYS[weekday % 7] ?? ''
const two = (number: number) => String(number).padStart(2, '0')
const clock = (hour: number, minute: number) => `${two(hour)}:${two(minute)}`

/** Returns `1,3` as numbers; null for anything else. */
function listOf(field: string, most: number): number[] | null {
  const numbers = field.split(',').map((one) => (/^\d{1,2}$/.test(one) ? Number(one) : Number.NaN))
  return numbers.every((number) => number <= most) ? numbers : null
}

function rangeOf(field: string, most: number): [number, number] | null {
  const [, from, to] = /^(\d{1,2})-(\d{1,2})$/.exec(field) ?? []
  if (from === undefined || to === undefined || Number(to) > most || Number(from) >= Number(to)) return null
  return [Number(from), Number(to)]
}

/** Returns `a`, `a and b`, or `a, b and c`. */
function inWords(list: readonly string[]): string {
  return list.length < 2 ? list.join('') : `${list.slice(0, -1).join(', ')} and ${list.at(-1)}`
}

/** Returns the value of a datetime-local field for a time in a time zone, such as `2026-11-28T08:00`. */
export function localTimeOf(at: string, timeZone: string): string {
  const ms = Date.parse(at)
  return new Date(ms + offsetMs(ms, timeZone)).toISOString().slice(0, 16)
}

/** Returns the time that a datetime-local field represents in a time zone; null if the field is empty. */
export function instantOf(local: string, timeZone: string): string | null {
  const asUtc = Date.parse(`${local}Z`)
  if (Number.isNaN(asUtc)) return null
  // The offset of the first guess can be the one before or after a clock change.
  const guess = asUtc - offsetMs(asUtc, timeZone)
  return new Date(asUtc - offsetMs(guess, timeZone)).toISOString()
}

/** Returns how far a time zone is ahead of UTC at a time. */
function offsetMs(ms: number, timeZone: string): number {
  const parts = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  }).formatToParts(ms)
  const of = (type: Intl.DateTimeFormatPartTypes) => Number(parts.find((part) => part.type === type)?.value)
  const local = Date.UTC(of('year'), of('month') - 1, of('day'), of('hour'), of('minute'), of('second'))
  return local - Math.floor(ms / 1000) * 1000
}
