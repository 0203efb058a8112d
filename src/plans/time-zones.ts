const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

const formats = new Map<string, Intl.DateTimeFormat>()

/** Whether a text is the IANA name of a time zone, such as Europe/Berlin, or UTC. Offsets are not accepted. */
export function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z][\w+/-]*$/.test(name)) return false
  try {
    formatOf(name)
    return true
  } catch {
    return false
  }
}

/** Returns the local time in a time zone at an instant. It is represented as if it were a UTC time. */
export function wallTime(instant: number, timeZone: string): number {
  if (timeZone === 'UTC') return instant
  const parts = formatOf(timeZone).formatToParts(instant)
  const value = (type: string) => Number(parts.find((part) => part.type === type)?.value)
  const seconds = Date.UTC(
    value('year'),
    value('month') - 1,
    value('day'),
    value('hour'),
    value('minute'),
    value('second'),
  )
  return seconds + (((instant % 1000) + 1000) % 1000)
}

/**
 * Returns the instant of a local time in a time zone. For a repeated local time, this is the first instant. For a
 * skipped one, it is the instant of the change. A later local time never has an earlier instant.
 */
export function instantOf(wall: number, timeZone: string): number {
  if (timeZone === 'UTC') return wall
  const offsets = [wall - DAY_MS, wall + DAY_MS].map((near) => wallTime(near, timeZone) - near)
  const [earlier = wall, later = wall] = offsets.map((offset) => wall - offset).sort((a, b) => a - b)
  const shown = [earlier, later].find((instant) => wallTime(instant, timeZone) === wall)
  return shown ?? leapAfter(earlier, later, wall, timeZone)
}

/** Returns the first whole minute between two instants at which the local time is later than `wall`. */
function leapAfter(from: number, to: number, wall: number, timeZone: string): number {
  let [before, after] = [Math.floor(from / MINUTE_MS) - 1, Math.ceil(to / MINUTE_MS) + 1]
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2)
    if (wallTime(middle * MINUTE_MS, timeZone) > wall) after = middle
    else before = middle
  }
  return after * MINUTE_MS
}

function formatOf(timeZone: string): Intl.DateTimeFormat {
  const known = formats.get(timeZone)
  if (known !== undefined) return known
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  formats.set(timeZone, format)
  return format
}
