import { describe, expect, test, vi } from 'vitest'
import { createLiveIteration } from '../../src/server/streams/live-iteration.ts'
import { createSharedWatch } from '../../src/server/streams/shared-watch.ts'
import { createSpacePace } from '../../src/server/streams/space-pace.ts'

/** Yields what it is given, then waits until the signal aborts. */
async function* waiting<T>(values: T[], signal: AbortSignal, onLeave = () => {}): AsyncGenerator<T> {
  try {
    yield* values
    if (signal.aborted) return
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
  } finally {
    onLeave()
  }
}

describe('a live iteration', () => {
  test('hands on what the source yields, and ends when it ends', async () => {
    const live = createLiveIteration<number>()
    const ended = vi.fn()
    live.onEnd(ended)
    const seen: number[] = []
    for await (const value of live.from(async function* () {
      yield* [1, 2]
    })) {
      seen.push(value)
    }
    expect(seen).toEqual([1, 2])
    expect(ended).toHaveBeenCalledOnce()
    expect(live.signal.aborted).toBe(true)
  })

  test('can be left in the middle of a wait', async () => {
    const live = createLiveIteration<number>()
    const left = Promise.withResolvers<void>()
    const iteration = live.from((signal) => waiting([1], signal, left.resolve))
    await iteration.next()
    const next = iteration.next()
    expect(await iteration.return?.()).toEqual({ done: true, value: undefined })
    expect(await next).toEqual({ done: true, value: undefined })
    await left.promise
  })

  test('can be ended with an error in the middle of a wait, and is over then', async () => {
    const live = createLiveIteration<number>()
    const iteration = live.from((signal) => waiting([], signal))
    const next = iteration.next()
    live.fail(new Error('enough'))
    live.fail(new Error('more than enough'))
    await expect(next).rejects.toThrow('enough')
    expect(await iteration.next()).toEqual({ done: true, value: undefined })
  })

  test('an error that comes while nobody waits is thrown once, at the next turn', async () => {
    const live = createLiveIteration<number>()
    const iteration = live.from((signal) => waiting([1], signal))
    await iteration.next()
    live.fail(new Error('enough'))
    await expect(iteration.next()).rejects.toThrow('enough')
    expect(await iteration.next()).toEqual({ done: true, value: undefined })
  })

  test('an error of the source ends it, and cleans up', async () => {
    const live = createLiveIteration<number>()
    const cleanUp = vi.fn()
    live.onEnd(cleanUp)
    const iteration = live.from(async function* () {
      yield* []
      throw new Error('broken')
    })
    await expect(iteration.next()).rejects.toThrow('broken')
    expect(cleanUp).toHaveBeenCalledOnce()
    const late = vi.fn()
    live.onEnd(late)
    expect(late).toHaveBeenCalledOnce()
  })

  test('the source begins with the first turn, and not at all where there is none', async () => {
    const begin = vi.fn()
    const live = createLiveIteration<number>()
    const iteration = live.from(() => {
      begin()
      return waiting([], live.signal)
    })
    await iteration.return?.()
    await iteration.next()
    expect(begin).not.toHaveBeenCalled()
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

  test('opens once for many, tells all, and closes after the last', async () => {
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

  test('tells who comes late the last word, where there is one', async () => {
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

test('the pace lets a first change through at once, joins the rest, and keeps the last', () => {
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
