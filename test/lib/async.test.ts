import { describe, expect, test } from 'vitest'
import { createBell, createDeferred, createLines } from '../../src/lib/async.ts'

describe('lines', () => {
  test('run in order for the same key, and concurrently for different keys', async () => {
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

  test('continue after a failure, which only its caller sees', async () => {
    const inLine = createLines()
    const failed = inLine('a', async () => {
      throw new Error('no')
    })
    const next = inLine('a', async () => 'yes')
    await expect(failed).rejects.toThrow('no')
    expect(await next).toBe('yes')
  })
})

describe('a wake-up signal', () => {
  const LONG_MS = 60_000

  test('wakes a waiter, even one that starts after the signal', async () => {
    const bell = createBell()
    const { signal } = new AbortController()
    const waiting = bell.wait(LONG_MS, signal)
    bell.ring()
    await waiting
    bell.ring()
    await bell.wait(LONG_MS, signal)
  })

  test('stops waiting after the timeout, or once the signal has aborted', async () => {
    const bell = createBell()
    const stop = new AbortController()
    await bell.wait(1, stop.signal)
    const waiting = bell.wait(LONG_MS, stop.signal)
    stop.abort()
    await waiting
    await bell.wait(LONG_MS, stop.signal)
  })
})
