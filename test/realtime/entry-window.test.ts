import { describe, expect, test } from 'vitest'
import { EntryWindow, type SizedEntry } from '../../src/realtime/entry-window.ts'

const EPOCH = 'e'
const entry = (n: number): SizedEntry => ({
  n,
  bytes: 10,
  entry: { cursor: `c${n}`, at: n, event: { type: 'SpaceUpdated' } },
})
const entries = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, index) => entry(first + index))
const open = (kept: number | 'needed') => new EntryWindow({ epoch: EPOCH, n: 0 }, kept)

describe('the window over a topic', () => {
  test('keeps only what a seat still needs', () => {
    const window = open('needed')
    const [quick, late] = [window.sit({ epoch: EPOCH, n: 0 })!, window.sit({ epoch: EPOCH, n: 0 })!]
    window.push(entries(1, 10))
    window.take(quick)
    window.push(entries(11, 12))
    expect(window.held).toBe(12)
    window.take(late)
    window.take(quick)
    expect(window.held).toBe(0)
    window.push(entries(13, 13))
    expect(window.held).toBe(1)
    window.leave(quick)
    window.leave(late)
    expect(window.held).toBe(0)
    window.push(entries(14, 20))
    expect(window.held).toBe(0)
  })

  test('does not wait for a seat that is far behind', () => {
    const window = open('needed')
    const seat = window.sit({ epoch: EPOCH, n: 0 })!
    for (let n = 1; n <= 5000; n += 1) window.push([entry(n)])
    expect(window.held).toBe(0)
    expect(window.take(seat)).toBe('behind')
  })

  test('keeps the last entries, however many seats there are', () => {
    const window = open(100)
    for (let n = 1; n <= 1000; n += 1) window.push([entry(n)])
    expect(window.held).toBe(100)
    expect(window.covers({ epoch: EPOCH, n: 900 })).toBe(true)
    expect(window.covers({ epoch: EPOCH, n: 899 })).toBe(false)
    expect(window.read({ epoch: EPOCH, n: 899 }, 5)).toEqual({ type: 'gap', end: { epoch: EPOCH, n: 1000 } })
    expect(window.read({ epoch: EPOCH, n: 998 }, 5)).toMatchObject({ entries: [{ n: 999 }, { n: 1000 }] })
  })

  test('a seat ahead of what has come gets only what lies beyond it', () => {
    const window = open('needed')
    const seat = window.sit({ epoch: EPOCH, n: 0 })!
    window.skip(seat, 5)
    window.push(entries(1, 5))
    expect(window.take(seat)).toBeNull()
    window.push(entries(6, 7))
    expect(window.take(seat)).toMatchObject({ entries: [{ cursor: 'c6' }, { cursor: 'c7' }] })
  })

  test('a seat that was moved on to what is no longer held has to read elsewhere', () => {
    const window = open('needed')
    const seat = window.sit({ epoch: EPOCH, n: 0 })!
    window.push(entries(1, 3))
    window.jump(50)
    window.skip(seat, 10)
    expect(window.take(seat)).toBe('behind')
  })

  test('a restart is one gap, however often it happens before it is taken', () => {
    const window = open('needed')
    const seat = window.sit({ epoch: EPOCH, n: 0 })!
    window.push(entries(1, 3))
    window.restart({ epoch: 'f', n: 7 })
    window.restart({ epoch: 'g', n: 8 })
    window.push([entry(9)])
    expect(window.take(seat)).toMatchObject({ type: 'gap' })
    expect(window.take(seat)).toMatchObject({ entries: [{ cursor: 'c9' }] })
    expect(window.take(seat)).toBeNull()
    expect(window.held).toBe(0)
  })

  test('after a jump the seats have to read elsewhere', () => {
    const window = open('needed')
    const seat = window.sit({ epoch: EPOCH, n: 0 })!
    window.push(entries(1, 3))
    window.jump(50)
    expect(window.held).toBe(0)
    expect(window.take(seat)).toBe('behind')
    window.leave(seat)
    window.push(entries(51, 52))
    expect(window.held).toBe(0)
  })
})
