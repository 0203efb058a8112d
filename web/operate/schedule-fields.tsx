import { useState } from 'react'
import { errorOf } from '../../client/errors.ts'
import type { PlanScheduleInput } from '../../generated/graphql.ts'
import { useAsk } from '../ask.ts'
import { PROFILE } from '../profile/operations.ts'
import { usePaused } from '../search/use-paused.ts'
import { Field, SelectField, TextField } from '../ui/field.tsx'
import { Refused } from '../ui/notice.tsx'
import { NEXT_RUNS } from './mind-operations.ts'
import {
  cronOf,
  DEFAULT_PARTS,
  instantOf,
  localTimeOf,
  partsOf,
  type Repetition,
  type ScheduleParts,
  WEEKDAYS,
  wordsOfCron,
} from './schedule-words.ts'

export const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone

const REPETITIONS: readonly (readonly [Repetition, string])[] = [
  ['HOURLY', 'Every hour'],
  ['DAILY', 'Every day'],
  ['WEEKDAYS', 'Monday to Friday'],
  ['WEEKLY', 'Every week'],
  ['MONTHLY', 'Every month'],
  ['CRON', 'Another schedule (cron)'],
  ['AFTER', 'Once, in a few minutes'],
  ['AT', 'Once, at a date and time'],
]

/** When a plan fires, as input for the API. */
export interface ChosenSchedule {
  schedule: PlanScheduleInput
  timeZone: string
}

/** Returns the viewer's own time zone, or the browser's if the viewer has set none. */
export function useOwnTimeZone(): string {
  return useAsk(PROFILE, {}).data?.viewer.human?.timeZone ?? HERE
}

interface ScheduleFieldsProps {
  /** The cron schedule of an existing plan. */
  cron?: string | null
  /** When an existing plan fires once; empty if it has already fired. */
  once?: string | null
  timeZone?: string
  onChange(chosen: ChosenSchedule): void
}

interface Fields extends ScheduleParts {
  cron: string
  afterMinutes: number
  /** The value of a datetime-local field, in the time zone of the plan. */
  at: string
  timeZone: string
}

/** Edits the schedule of a plan, in most cases without cron. The next five times show whether the schedule is as intended. */
export function ScheduleFields({ cron = null, once = null, timeZone, onChange }: ScheduleFieldsProps) {
  const own = useOwnTimeZone()
  const parts = cron === null ? DEFAULT_PARTS : partsOf(cron)
  const [fields, setFields] = useState<Fields>({
    ...parts,
    ...(once === null ? {} : { repetition: 'AT' }),
    cron: cron ?? '',
    afterMinutes: 60,
    at: once === null || once === '' ? '' : localTimeOf(once, timeZone ?? own),
    timeZone: timeZone ?? '',
  })
  const zone = fields.timeZone === '' ? own : fields.timeZone
  const chosen = { schedule: scheduleOf(fields, zone), timeZone: zone }
  const change = (changed: Partial<Fields>) => {
    const next = { ...fields, ...changed }
    // A cron expression starts as the schedule that the fields describe.
    if (changed.repetition === 'CRON') next.cron = cronOf(fields) ?? fields.cron
    setFields(next)
    const nextZone = next.timeZone === '' ? own : next.timeZone
    onChange({ schedule: scheduleOf(next, nextZone), timeZone: nextZone })
  }
  const { repetition } = fields
  const hasTime =
    repetition === 'DAILY' || repetition === 'WEEKDAYS' || repetition === 'WEEKLY' || repetition === 'MONTHLY'
  return (
    <>
      <div className="columns">
        <SelectField
          label="Repeats"
          value={repetition}
          onChange={(event) => change({ repetition: event.target.value as Repetition })}
          options={REPETITIONS}
        />
        {repetition === 'WEEKLY' && (
          <SelectField
            label="On"
            value={fields.weekday}
            onChange={(event) => change({ weekday: Number(event.target.value) })}
            options={WEEKDAYS.map((name, at) => [String(at), name] as const)}
          />
        )}
        {repetition === 'MONTHLY' && (
          <TextField
            label="On day"
            type="number"
            min={1}
            max={31}
            required
            value={fields.day}
            onChange={(event) => change({ day: Number(event.target.value) })}
            hint="A month without this day is skipped."
          />
        )}
        {repetition === 'HOURLY' && (
          <TextField
            label="At minute"
            type="number"
            min={0}
            max={59}
            required
            value={fields.minute}
            onChange={(event) => change({ minute: Number(event.target.value) })}
          />
        )}
        {hasTime && (
          <TextField
            label="At"
            type="time"
            required
            value={`${String(fields.hour).padStart(2, '0')}:${String(fields.minute).padStart(2, '0')}`}
            onChange={(event) => {
              const [hour = Number.NaN, minute = Number.NaN] = event.target.value.split(':').map(Number)
              if (Number.isInteger(hour) && Number.isInteger(minute)) change({ hour, minute })
            }}
          />
        )}
        {repetition === 'CRON' && (
          <TextField
            label="Schedule (cron)"
            required
            value={fields.cron}
            onChange={(event) => change({ cron: event.target.value })}
            placeholder="0 8 * * 1-5"
            hint="Minute, hour, day of month, month, day of week"
          />
        )}
        {repetition === 'AFTER' && (
          <TextField
            label="Minutes from now"
            type="number"
            min={1}
            required
            value={fields.afterMinutes}
            onChange={(event) => change({ afterMinutes: Number(event.target.value) })}
          />
        )}
        {repetition === 'AT' && (
          <TextField
            label="Date and time"
            type="datetime-local"
            required
            value={fields.at}
            onChange={(event) => change({ at: event.target.value })}
          />
        )}
        {repetition !== 'AFTER' && <ZoneField zone={zone} onZone={(next) => change({ timeZone: next })} />}
      </div>
      <NextTimes {...chosen} />
    </>
  )
}

function ZoneField({ zone, onZone }: { zone: string; onZone(zone: string): void }) {
  const zones = [...new Set([zone, HERE, 'UTC', ...Intl.supportedValuesOf('timeZone')])]
  return (
    <Field label="Time zone" hint="The times of this plan are in this zone.">
      {(given) => (
        <select {...given} value={zone} onChange={(event) => onZone(event.target.value)}>
          {zones.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      )}
    </Field>
  )
}

function scheduleOf(fields: Fields, timeZone: string): PlanScheduleInput {
  if (fields.repetition === 'AFTER') return { afterSeconds: Math.round(fields.afterMinutes * 60) }
  if (fields.repetition === 'AT') return { at: instantOf(fields.at, timeZone) ?? NO_TIME }
  return { cron: cronOf(fields) ?? fields.cron }
}

/** A placeholder for a time that has not been entered yet. */
const NO_TIME = new Date(0).toISOString()

/** Describes the schedule in words, and with its next five times. */
function NextTimes(chosen: ChosenSchedule) {
  const { schedule, timeZone } = useChosen(chosen)
  const cron = schedule.cron ?? null
  const isEmpty = cron === '' || schedule.at === NO_TIME
  const { data, error } = useAsk(NEXT_RUNS, { schedule, timeZone }, { enabled: !isEmpty })
  const words = cron === null ? 'once' : (wordsOfCron(cron) ?? cron)
  if (isEmpty) return <p className="hint">Enter when the plan fires: its next times appear here.</p>
  return (
    <div className="next-times" role="status" aria-label="Next times">
      {error === null ? (
        data?.nextRuns && (
          <>
            <p>{sentence(`${words}, in ${timeZone}:`)}</p>
            <TimeList times={data.nextRuns} timeZone={timeZone} />
          </>
        )
      ) : (
        <Refused error={errorOf(error)} />
      )}
    </div>
  )
}

/** Delays changes of the schedule. Compares by content, because the fields create a new object with every render. */
function useChosen(chosen: ChosenSchedule): ChosenSchedule {
  return JSON.parse(usePaused(JSON.stringify(chosen)))
}

export const sentence = (words: string) => words.charAt(0).toUpperCase() + words.slice(1)

/** Lists times with their weekdays, in a time zone. */
export function TimeList({ times, timeZone }: { times: readonly string[]; timeZone: string }) {
  const format = formatIn(timeZone)
  return (
    <ol className="time-list">
      {times.map((at) => (
        <li key={at}>
          <time dateTime={at} title={timeZone}>
            {format.format(new Date(at))}
          </time>
        </li>
      ))}
    </ol>
  )
}

/** Formats a time as `Fri, 28 Nov, 08:00`. */
export function formatIn(timeZone: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat(undefined, {
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    hour: '2-digit',
    minute: '2-digit',
    // As in the words of schedules: “at 08:00”.
    hourCycle: 'h23',
    timeZone,
  })
}
