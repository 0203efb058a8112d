import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cronOf, instantOf, localTimeOf, partsOf, wordsOfCron } from '../../web/operate/schedule-words.ts'

describe('a schedule in words', () => {
  test.each([
    ['* * * * *', 'every minute'],
    ['*/15 * * * *', 'every 15 minutes'],
    ['*/15 9-17 * * 1-5', 'every 15 minutes, from 09:00 to 17:59, Monday to Friday'],
    ['5 * * * *', 'every hour at :05'],
    ['0,30 * * * *', 'every hour at :00 and :30'],
    ['0 */2 * * *', 'every 2 hours at :00'],
    ['0 9-17 * * 1-5', 'every hour from 9 to 17 o’clock, at :00, Monday to Friday'],
    ['0 8 * * *', 'every day at 08:00'],
    ['0 8,12 * * *', 'every day at 08:00 and 12:00'],
    ['0 8 * * 1-5', 'Monday to Friday at 08:00'],
    ['30 17 * * 5', 'every Friday at 17:30'],
    ['0 9 * * 0,3,6', 'every Sunday, Wednesday and Saturday at 09:00'],
    ['0 9 * * 7', 'every Sunday at 09:00'],
    ['0 9 1 * *', 'on day 1 of every month at 09:00'],
    ['0 9 L * *', 'on the last day of every month at 09:00'],
    ['0 0 24 12 *', 'on 24 December at 00:00'],
    ['0 0 * 7,8 *', 'every day in July and August at 00:00'],
  ])('%s is “%s”', (cron, words) => {
    expect(wordsOfCron(cron)).toBe(words)
  })

  test.each(['0 0 13 * 5', '0 9 * * 5L', '0 9 * * MON', '1-5 * * * *', '0 0 0 * *', '99 * * * *', '0 8 * *', ''])(
    '%s has no words',
    (cron) => {
      expect(wordsOfCron(cron)).toBeNull()
    },
  )

  test('the form can show every schedule that it creates', () => {
    const parts = fc.record({
      repetition: fc.constantFrom(
        'HOURLY' as const,
        'DAILY' as const,
        'WEEKDAYS' as const,
        'WEEKLY' as const,
        'MONTHLY' as const,
      ),
      minute: fc.integer({ min: 0, max: 59 }),
      hour: fc.integer({ min: 0, max: 23 }),
      weekday: fc.integer({ min: 0, max: 6 }),
      day: fc.integer({ min: 1, max: 31 }),
    })
    fc.assert(
      fc.property(parts, (made) => {
        const cron = cronOf(made) ?? ''
        expect(cronOf(partsOf(cron))).toBe(cron)
        expect(wordsOfCron(cron)).not.toBeNull()
      }),
    )
    expect(partsOf('0 0 13 * 5').repetition).toBe('CRON')
  })

  test.each([
    ['2026-11-28T08:00', 'Europe/Berlin', '2026-11-28T07:00:00.000Z'],
    ['2026-07-01T08:00', 'Europe/Berlin', '2026-07-01T06:00:00.000Z'],
    ['2026-07-01T08:00', 'America/New_York', '2026-07-01T12:00:00.000Z'],
    ['2026-03-29T03:30', 'Europe/Berlin', '2026-03-29T01:30:00.000Z'],
    ['2026-11-28T00:15', 'Asia/Kathmandu', '2026-11-27T18:30:00.000Z'],
    ['2026-11-28T08:00', 'UTC', '2026-11-28T08:00:00.000Z'],
  ])('%s in %s is %s, and back', (local, zone, at) => {
    expect(instantOf(local, zone)).toBe(at)
    expect(localTimeOf(at, zone)).toBe(local)
  })

  test('a time that is not entered is null', () => {
    expect(instantOf('', 'UTC')).toBeNull()
  })
})
