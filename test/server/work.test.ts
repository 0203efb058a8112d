import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { createWork } from '../../src/server/http/work.ts'

describe('concurrent operations', () => {
  /** Starts operations, and records the order in which they are executed. */
  function stage(options: Parameters<typeof createWork>[0]) {
    const work = createWork({ small: 0, ...options })
    const begun: string[] = []
    const ends = new Map<string, () => void>()
    const begin = (name: string, weight: number, signal?: AbortSignal) =>
      work.begin(name[0] ?? '', weight, signal).then((end) => {
        begun.push(name)
        ends.set(name, end)
      })
    const end = async (name: string) => {
      ends.get(name)?.()
      await setImmediate()
      await setImmediate()
    }
    return { begin, begun, end }
  }

  test('start at once while they are light, and one at a time if they are heavy', async () => {
    const { begin, begun, end } = stage({ mostOfViewer: 10 })
    for (const name of ['a1', 'a2', 'a3', 'a4', 'a5']) await begin(name, 2)
    expect(begun).toHaveLength(5)
    const waiting = begin('a6', 2)
    await setImmediate()
    expect(begun).toHaveLength(5)
    await end('a1')
    await waiting
    const heavy = stage({ mostOfViewer: 10 })
    await heavy.begin('a1', 100)
    const next = heavy.begin('a2', 100)
    await setImmediate()
    expect(heavy.begun).toEqual(['a1'])
    await heavy.end('a1')
    await next
    expect(heavy.begun).toEqual(['a1', 'a2'])
  })

  test('operations of different viewers are processed in turn, even if one of them has many waiting', async () => {
    const { begin, begun, end } = stage({ mostOfViewer: 10, mostInAll: 10 })
    await begin('a1', 10)
    const waiting = ['a2', 'a3', 'a4', 'b1', 'c1'].map((name) => begin(name, 10))
    for (let n = 0; n < 6; n += 1) await end(begun.at(-1) ?? '')
    await Promise.all(waiting)
    expect(begun).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'a4'])
  })

  test('are refused with a retry time after a maximum wait or queue length; canceled ones delay nobody', async () => {
    const { begin, begun, end } = stage({ mostOfViewer: 1, mostWaitingOfViewer: 1, longestWaitMs: 30 })
    await begin('a1', 1)
    const late = begin('a2', 1)
    await expect(begin('a3', 1)).rejects.toMatchObject({ code: 'RATE_LIMITED', retryAfterMs: 30 })
    await expect(late).rejects.toMatchObject({ code: 'RATE_LIMITED' })
    const closing = new AbortController()
    const canceled = begin('a4', 1, closing.signal)
    closing.abort(new Error('gone'))
    await expect(canceled).rejects.toThrow('gone')
    const next = begin('a5', 1)
    await end('a1')
    await next
    expect(begun).toEqual(['a1', 'a5'])
  })

  test('concurrent operations of one viewer are limited in number, even light ones, so that others do not wait behind them', async () => {
    const { begin, begun, end } = stage({ mostAtOnce: 3 })
    const all = Array.from({ length: 10 }, (_, n) => begin(`a${n}`, 1))
    await setImmediate()
    expect(begun).toHaveLength(3)
    await begin('b1', 1)
    for (let n = 0; n < 10; n += 1) await end(`a${n}`)
    await Promise.all(all)
    expect(begun).toHaveLength(11)
  })

  test('a large operation for which there is no room starts before later ones that would fit', async () => {
    const { begin, begun, end } = stage({ mostOfViewer: 10, mostInAll: 10, small: 1 })
    await begin('a1', 6)
    const large = begin('b1', 8)
    await setImmediate()
    const later = ['c1', 'd1'].map((name) => begin(name, 4))
    await begin('e1', 1)
    await setImmediate()
    expect(begun).toEqual(['a1', 'e1'])
    await end('e1')
    await end('a1')
    await large
    expect(begun.slice(2)).toEqual(['b1'])
    await end('b1')
    await Promise.all(later)
    expect(begun).toEqual(['a1', 'e1', 'b1', 'c1', 'd1'])
  })

  test('a refusal says whether the operations of the viewer or those of others left no room', async () => {
    const { begin } = stage({ mostOfViewer: 10, mostInAll: 10, longestWaitMs: 30 })
    await begin('a1', 10)
    await expect(begin('a2', 5)).rejects.toThrow('You have too many operations in progress')
    await expect(begin('b1', 5)).rejects.toThrow('The server has too many operations in progress')
  })

  test('small operations start at once next to those of other viewers', async () => {
    const { begin, begun } = stage({ mostOfViewer: 10, mostInAll: 10, small: 2 })
    await begin('a1', 10)
    await begin('b1', 2)
    const late = begin('c1', 3)
    await setImmediate()
    expect(begun).toEqual(['a1', 'b1'])
    late.catch(() => {})
  })
})
