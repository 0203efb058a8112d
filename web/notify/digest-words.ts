const HOUR = 60
const DAY = 24 * HOUR

/** Returns 90 as “1 hour 30 minutes”. */
function wordsOfMinutes(minutes: number): string {
  const parts = [
    [Math.floor(minutes / DAY), 'day'],
    [Math.floor((minutes % DAY) / HOUR), 'hour'],
    [minutes % HOUR, 'minute'],
  ] as const
  return parts.flatMap(([count, unit]) => (count === 0 ? [] : `${count} ${unit}${count === 1 ? '' : 's'}`)).join(' ')
}

/**
 * Describes which emails a person gets. `minutes` is the time after which open notices are emailed; NaN if the field is empty.
 */
export function wordsOfDigest({ mail, minutes }: { mail: boolean; minutes: number }): string {
  if (!mail) return 'You get no email.'
  if (!Number.isInteger(minutes) || minutes < 0) return 'Enter the minutes, from 0 (at once) to 10080 (a week).'
  const when =
    minutes === 0
      ? 'You get an email at once.'
      : `You get an email ${wordsOfMinutes(minutes)} after something happened, if you have not seen it by then.`
  return `${when} It lists everything that is still open: mentions, decisions that wait for you, failed runs. You get at most 10 emails an hour.`
}
