import { useEffect, useState } from 'react'

const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'medium' })
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' })
const DAY = new Intl.DateTimeFormat(undefined, { weekday: 'long', day: 'numeric', month: 'long' })
const DAY_AND_YEAR = new Intl.DateTimeFormat(undefined, { dateStyle: 'long' })
const DAY_AND_TIME = new Intl.DateTimeFormat(undefined, {
  day: 'numeric',
  month: 'short',
  hour: 'numeric',
  minute: '2-digit',
})
const SHORT_DAY = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' })

/** The time of day; the tooltip shows the full date. */
export function Time({ at }: { at: string }) {
  const date = new Date(at)
  return (
    <time dateTime={at} title={FULL.format(date)}>
      {CLOCK.format(date)}
    </time>
  )
}

/** The time of day for today; the date for other days. */
export function Moment({ at }: { at: string }) {
  const date = new Date(at)
  const isToday = dayOf(at) === dayOf(new Date().toISOString())
  return (
    <time dateTime={at} title={FULL.format(date)}>
      {isToday ? CLOCK.format(date) : SHORT_DAY.format(date)}
    </time>
  )
}

/** The date and the time of day, for records. */
export function DayAndTime({ at }: { at: string }) {
  const date = new Date(at)
  return (
    <time dateTime={at} title={FULL.format(date)}>
      {DAY_AND_TIME.format(date)}
    </time>
  )
}

/** Returns a key for the day in the reader's time zone. */
export const dayOf = (at: string) => new Date(at).toDateString()

export function wordsOfDay(at: string): string {
  const date = new Date(at)
  const today = new Date()
  if (date.toDateString() === today.toDateString()) return 'Today'
  if (date.toDateString() === new Date(today.getTime() - 86_400_000).toDateString()) return 'Yesterday'
  return date.getFullYear() === today.getFullYear() ? DAY.format(date) : DAY_AND_YEAR.format(date)
}

/** Returns `1.2 s`, `3 min 4 s` or `2 h 5 min`. */
export function wordsOfDuration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`
  const seconds = ms / 1000
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`
}

/** The time left, which is updated as it runs out. */
export function Countdown({ until }: { until: string }) {
  const [now, setNow] = useState(() => Date.now())
  const left = new Date(until).getTime() - now
  const everyMs = left > 3_600_000 ? 60_000 : 1000
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs)
    return () => clearInterval(timer)
  }, [everyMs])
  return (
    <span className={`countdown ${left < 60_000 ? 'soon' : ''}`} title={FULL.format(new Date(until))}>
      {left <= 0 ? 'time is up' : `${wordsOfDuration(left)} left`}
    </span>
  )
}
