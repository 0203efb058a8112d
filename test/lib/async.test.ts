import { describe, expect, test } from 'vitest'
import { createBell, createDeferred, createLines } from '../../src/lib/async.ts'

describe('lines', () => {
  test('let one after another of the same key, and different keys at once', async () => {
    const inLine = createLines()
    const [first, other] = [createDeferred(), createDeferred()]
    const done: string[] = []
    const task = (name: string, after?: Promise<void>) => async () => {
      done.push(`${name} begins`)
      await after
      done.push(`${name} ends`)
      return name
    }
    const all = [
      inLine('a', task('one', first.promise)),
      inLine('a', task('two')),
      inLine('b', task('three', other.promise)),
    ]
    other.resolve()
    await all[2]
    expect(done).toEqual(['one begins', 'three begins', 'three ends'])
    first.resolve()
    expect(await Promise.all(all)).toEqual(['one', 'two', 'three'])
    expect(done.slice(3)).toEqual(['one ends', 'two begins', 'two ends'])
  })

  test('go on after one that failed, whose caller alone is told', async () => {
    const inLine = createLines()
    const failed = inLine('a', async () => {
      throw new Error('no')
    })
    const next = inLine('a', async () => 'yes')
    await expect(failed).rejects.toThrow('no')
    expect(await next).toBe('yes')
  })
})

describe('a bell', () => {
  const LONG_MS = 60_000

  test('wakes who waits, and who comes after it has rung', async () => {
    const bell = createBell()
    const { signal } = new AbortController()
    const waiting = bell.wait(LONG_MS, signal)
    bell.ring()
    await waiting
    bell.ring()
    await bell.wait(LONG_MS, signal)
  })

  test('is not waited for beyond the time, nor once the signal has aborted', async () => {
    const bell = createBell()
    const stop = new AbortController()
    await bell.wait(1, stop.signal)
    const waiting = bell.wait(LONG_MS, stop.signal)
    stop.abort()
    await waiting
    await bell.wait(LONG_MS, stop.signal)
  })
})
