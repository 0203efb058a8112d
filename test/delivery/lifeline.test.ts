import { describe, expect, test, vi } from 'vitest'
import { createLifeline } from '../../src/delivery/feed.ts'
import { createSpacePace } from '../../src/delivery/feeds/viewer.ts'
import { createSharedWatch } from '../../src/delivery/shared-watch.ts'

describe('a lifeline', () => {
  test('ends once, with the first failure, and disposes of its resources', () => {
    const lifeline = createLifeline()
    const ended = vi.fn()
    lifeline.onEnd(ended)
    lifeline.fail(new Error('enough'))
    lifeline.fail(new Error('more than enough'))
    lifeline.end()
    expect(ended).toHaveBeenCalledOnce()
    expect(lifeline.signal.aborted).toBe(true)
    expect(lifeline.failure()).toEqual(new Error('enough'))
  })

  test('disposes at once of a resource that is added too late', () => {
    const lifeline = createLifeline()
    lifeline.end()
    const late = vi.fn()
    lifeline.onEnd(late)
    lifeline.fail(new Error('too late'))
    expect(late).toHaveBeenCalledOnce()
    expect(lifeline.failure()).toBeNull()
  })
})

describe('a shared watch', () => {
  function watched(options?: { final: boolean }) {
    const closed = vi.fn()
    const emitters = new Map<string, (value: string) => void>()
    const opened = vi.fn(async (key: string, emit: (value: string) => void) => {
      emitters.set(key, emit)
      return () => closed(key)
    })
    return { watch: createSharedWatch<string>(opened, options), emitters, opened, closed }
  }

  test('opens once for many users, notifies all of them, and closes after the last one', async () => {
    const { watch, emitters, opened, closed } = watched()
    const [one, two] = [vi.fn(), vi.fn()]
    const leave = await Promise.all([watch.join('k', one), watch.join('k', two)])
    expect(opened).toHaveBeenCalledOnce()
    emitters.get('k')?.('news')
    expect([one.mock.calls, two.mock.calls]).toEqual([[['news']], [['news']]])
    leave[0]()
    leave[0]()
    expect(closed).not.toHaveBeenCalled()
    leave[1]()
    expect(closed).toHaveBeenCalledOnce()
    expect(watch.size()).toBe(0)
  })

  test('gives a late listener the final value, if there is one', async () => {
    const { watch, emitters } = watched({ final: true })
    const leave = await watch.join('k', () => {})
    emitters.get('k')?.('over')
    const late = vi.fn()
    const leaveToo = await watch.join('k', late)
    expect(late).toHaveBeenCalledWith('over')
    leave()
    leaveToo()
  })
})

test('publishes a first change at once, merges later ones, and keeps the last', () => {
  vi.useFakeTimers()
  const told: string[] = []
  const pace = createSpacePace((spaceId) => told.push(spaceId), 500)
  pace.changed('a')
  pace.changed('b')
  for (let n = 0; n < 10; n++) pace.changed('a')
  expect(told).toEqual(['a', 'b'])
  vi.advanceTimersByTime(500)
  expect(told).toEqual(['a', 'b', 'a'])
  vi.advanceTimersByTime(5000)
  expect(told).toEqual(['a', 'b', 'a'])
  pace.changed('a')
  pace.changed('a')
  pace.forget('a')
  vi.advanceTimersByTime(5000)
  expect(told).toEqual(['a', 'b', 'a', 'a'])
  pace.close()
  vi.useRealTimers()
})
