import { expect, test } from 'vitest'
import { createDeferringEventLog } from '../../src/realtime/deferring-event-log.ts'
import { type EventLog, LogUnavailableError } from '../../src/realtime/event-log.ts'
import { createInProcessEventLog } from '../../src/realtime/in-process-event-log.ts'
import { until } from '../support/until.ts'

const LOGGER = { info() {}, warn() {} }

/** A log that can be switched off. */
function switchable(): { log: EventLog; away: boolean } {
  const inner = createInProcessEventLog()
  const state = {
    away: false,
    log: {
      ...inner,
      async append(...given: Parameters<EventLog['append']>) {
        if (state.away) throw new LogUnavailableError('away')
        return inner.append(...given)
      },
      async seal(guard: string) {
        if (state.away) throw new LogUnavailableError('away')
        return inner.seal(guard)
      },
    } satisfies EventLog,
  }
  return state
}

const typesOf = async (log: EventLog, start: string) => {
  const found = await log.read('space:1', start, 100)
  return found.type === 'entries' ? found.entries.map(({ event }) => event.type) : []
}

test('what is announced while the log is away goes out in order when it is back, and nothing overtakes it', async () => {
  const inner = switchable()
  const log = createDeferringEventLog(inner.log, LOGGER)
  const [start = ''] = await log.heads(['space:1'])
  await log.append('space:1', { type: 'First' })
  inner.away = true
  expect(await log.append('space:1', { type: 'Second' })).toEqual({ type: 'deferred' })
  inner.away = false
  expect(await log.append('space:1', { type: 'Third' })).toEqual({ type: 'deferred' })
  await until('all are there', async () => (await typesOf(log, start)).length === 3)
  expect(await typesOf(log, start)).toEqual(['First', 'Second', 'Third'])
  expect(await log.append('space:1', { type: 'Fourth' })).toMatchObject({ type: 'appended' })
  await log.close()
})

test('a run can be ended while the log is away', async () => {
  const inner = switchable()
  const log = createDeferringEventLog(inner.log, LOGGER)
  inner.away = true
  await log.seal('run:1')
  await log.close()
})

test('other faults are the caller’s', async () => {
  const inner = switchable()
  inner.log.append = async () => Promise.reject(new Error('broken'))
  const log = createDeferringEventLog(inner.log, LOGGER)
  await expect(log.append('space:1', { type: 'First' })).rejects.toThrow('broken')
  await log.close()
})
