/**
 * Returns the start of a day in the reader's time zone, in ISO 8601; null if `day` is null or not a date.
 * @param day a date such as 2026-05-31
 * @param daysAfter returns the start of a later day, this many days after `day`
 */
export function startOfDay(day: string | null, daysAfter: number): string | null {
  if (day === null) return null
  const [year = Number.NaN, month = 1, date = 1] = day.split('-').map(Number)
  const start = new Date(year, month - 1, date + daysAfter)
  return Number.isNaN(start.getTime()) ? null : start.toISOString()
}
