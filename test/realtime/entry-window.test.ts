import { describe, expect, test } from 'vitest'
import { EntryWindow } from '../../src/realtime/entry-window.ts'
import type { SizedEntry } from '../../src/realtime/event-log.ts'

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
    window.push(entries(13, 40))
    window.leave(quick)
    expect(window.held).toBe(28)
    window.leave(late)
    window.push(entries(41, 41))
    expect(window.held).toBe(0)
  })

  test('keeps some more where many sit, so that those who come back at the same time need no log', () => {
    const window = open('needed')
    const seats = Array.from({ length: 100 }, () => window.sit({ epoch: EPOCH, n: 0 })!)
    for (let n = 1; n <= 2000; n += 1) {
      window.push([entry(n)])
      for (const seat of seats) window.take(seat)
    }
    expect(window.held).toBe(500)
    for (const seat of seats.slice(1)) window.leave(seat)
    window.push(entries(2001, 2001))
    expect(window.held).toBe(8)
  })

  test('takes in what was read from the log before its first entry, once', () => {
    const window = open('needed')
    window.jump(100)
    expect(window.sit({ epoch: EPOCH, n: 90 })).toBeNull()
    const adopt = (first: number, last: number) =>
      window.adopt({ epoch: EPOCH, n: first - 1 }, { type: 'entries', entries: entries(first, last) })
    adopt(80, 98)
    expect(window.covers({ epoch: EPOCH, n: 90 })).toBe(false)
    adopt(91, 100)
    adopt(81, 95)
    const late = window.sit({ epoch: EPOCH, n: 85 })!
    window.push(entries(101, 101))
    expect(window.take(late)).toMatchObject({ entries: entries(86, 101).map(({ entry: { cursor } }) => ({ cursor })) })
  })

  test('delivers no more bytes at a time than fit, but always one entry', () => {
    const window = open('needed')
    const seat = window.sit({ epoch: EPOCH, n: 0 })!
    const large = (n: number, bytes: number): SizedEntry => ({ ...entry(n), bytes })
    window.push([large(1, 200_000), large(2, 50_000), large(3, 50_000), large(4, 1_000_000)])
    const taken = () => (window.take(seat) as { entries: unknown[] }).entries.length
    expect([taken(), taken(), taken()]).toEqual([2, 1, 1])
  })

  test('does not wait for a seat that is far behind', () => {
    const window = open('needed')
    const seat = window.sit({ epoch: EPOCH, n: 0 })!
    for (let n = 1; n <= 5000; n += 1) window.push([entry(n)])
    expect(window.held).toBe(8)
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
    expect(window.held).toBe(1)
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
