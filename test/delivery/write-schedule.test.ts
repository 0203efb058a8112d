import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createWriteSchedule } from '../../src/delivery/write-schedule.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())

const tick = () => new Promise<void>((resolve) => process.nextTick(resolve))

test('the first write after a pause has its own tick, and writes within a millisecond after it are joined', async () => {
  const schedule = createWriteSchedule()
  const served: string[] = []
  const tell = (what: string) =>
    schedule.next(() => {
      served.push(what)
      return 0
    })
  tell('first')
  await tick()
  expect(served).toEqual(['first'])
  tell('second')
  await tick()
  expect(served).toHaveLength(1)
  tell('third')
  vi.advanceTimersByTime(1)
  expect(served.slice(1)).toEqual(['second', 'third'])
  vi.advanceTimersByTime(1)
  tell('fourth')
  await tick()
  expect(served.slice(3)).toEqual(['fourth'])
})
