import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createWriteSchedule } from '../../src/server/sockets/write-schedule.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())

const tick = () => new Promise<void>((resolve) => process.nextTick(resolve))

test('what comes after a pause is written in its own tick, what comes within a millisecond after it together', async () => {
  const schedule = createWriteSchedule()
  const served: string[] = []
  const tell = (what: string) =>
    schedule.next(() => {
      schedule.atEnd(() => served.push('written'))
      served.push(what)
      return 0
    })
  tell('first')
  await tick()
  expect(served).toEqual(['first', 'written'])
  tell('second')
  await tick()
  expect(served).toHaveLength(2)
  tell('third')
  vi.advanceTimersByTime(1)
  expect(served.slice(2)).toEqual(['second', 'third', 'written', 'written'])
  vi.advanceTimersByTime(1)
  tell('fourth')
  await tick()
  expect(served.slice(6)).toEqual(['fourth', 'written'])
})
