import { describe, expect, test } from 'vitest'
import type { SizedPublication } from '../../src/broker/log.ts'
import { PublicationWindow } from '../../src/broker/window.ts'

const EPOCH = 'e'
const entry = (n: number): SizedPublication => ({
  offset: n,
  bytes: 10,
  publication: { cursor: `c${n}`, at: n, event: { type: 'SpaceUpdated' } },
})
const entries = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, index) => entry(first + index))
const open = (kept: number | 'needed') => new PublicationWindow({ epoch: EPOCH, offset: 0 }, kept)

describe('the window of cached entries of a topic', () => {
  test('keeps only what a reading position still needs', () => {
    const window = open('needed')
    const [quick, late] = [window.attach({ epoch: EPOCH, offset: 0 })!, window.attach({ epoch: EPOCH, offset: 0 })!]
    window.push(entries(1, 10))
    window.take(quick)
    window.push(entries(11, 12))
    expect(window.held).toBe(12)
    window.take(late)
    window.take(quick)
    window.push(entries(13, 40))
    window.detach(quick)
    expect(window.held).toBe(28)
    window.detach(late)
    window.push(entries(41, 41))
    expect(window.held).toBe(0)
  })

  test('keeps more entries with many positions, so that concurrent resumes need no read of the log', () => {
    const window = open('needed')
    const positions = Array.from({ length: 100 }, () => window.attach({ epoch: EPOCH, offset: 0 })!)
    for (let n = 1; n <= 2000; n += 1) {
      window.push([entry(n)])
      for (const position of positions) window.take(position)
    }
    expect(window.held).toBe(500)
    for (const position of positions.slice(1)) window.detach(position)
    window.push(entries(2001, 2001))
    expect(window.held).toBe(8)
  })

  test('adds entries from the log before its first one, once', () => {
    const window = open('needed')
    window.jump(100)
    expect(window.attach({ epoch: EPOCH, offset: 90 })).toBeNull()
    const adopt = (first: number, last: number) =>
      window.prepend({ epoch: EPOCH, offset: first - 1 }, { type: 'publications', publications: entries(first, last) })
    adopt(80, 98)
    expect(window.covers({ epoch: EPOCH, offset: 90 })).toBe(false)
    adopt(91, 100)
    adopt(81, 95)
    const late = window.attach({ epoch: EPOCH, offset: 85 })!
    window.push(entries(101, 101))
    expect(window.take(late)).toMatchObject({
      publications: entries(86, 101).map(({ publication: { cursor } }) => ({ cursor })),
    })
  })

  test('delivers no more bytes at a time than fit, but at least one entry', () => {
    const window = open('needed')
    const position = window.attach({ epoch: EPOCH, offset: 0 })!
    const large = (n: number, bytes: number): SizedPublication => ({ ...entry(n), bytes })
    window.push([large(1, 200_000), large(2, 50_000), large(3, 50_000), large(4, 1_000_000)])
    const taken = () => (window.take(position) as { publications: unknown[] }).publications.length
    expect([taken(), taken(), taken()]).toEqual([2, 1, 1])
  })

  test('does not hold entries for a position that is far behind', () => {
    const window = open('needed')
    const position = window.attach({ epoch: EPOCH, offset: 0 })!
    for (let n = 1; n <= 5000; n += 1) window.push([entry(n)])
    expect(window.held).toBe(8)
    expect(window.take(position)).toBe('behind')
  })

  test('keeps the last entries, regardless of the number of positions', () => {
    const window = open(100)
    for (let n = 1; n <= 1000; n += 1) window.push([entry(n)])
    expect(window.held).toBe(100)
    expect(window.covers({ epoch: EPOCH, offset: 900 })).toBe(true)
    expect(window.covers({ epoch: EPOCH, offset: 899 })).toBe(false)
    expect(window.read({ epoch: EPOCH, offset: 899 }, 5)).toEqual({ type: 'gap', end: { epoch: EPOCH, offset: 1000 } })
    expect(window.read({ epoch: EPOCH, offset: 998 }, 5)).toMatchObject({
      publications: [{ offset: 999 }, { offset: 1000 }],
    })
  })

  test('gives a position that is ahead of its entries only later entries', () => {
    const window = open('needed')
    const position = window.attach({ epoch: EPOCH, offset: 0 })!
    window.advance(position, 5)
    window.push(entries(1, 5))
    expect(window.take(position)).toBeNull()
    window.push(entries(6, 7))
    expect(window.take(position)).toMatchObject({ publications: [{ cursor: 'c6' }, { cursor: 'c7' }] })
  })

  test('makes a position that is past its entries read the log', () => {
    const window = open('needed')
    const position = window.attach({ epoch: EPOCH, offset: 0 })!
    window.push(entries(1, 3))
    window.jump(50)
    window.advance(position, 10)
    expect(window.take(position)).toBe('behind')
  })

  test('reports several restarts before a read as one gap', () => {
    const window = open('needed')
    const position = window.attach({ epoch: EPOCH, offset: 0 })!
    window.push(entries(1, 3))
    window.restart({ epoch: 'f', offset: 7 })
    window.restart({ epoch: 'g', offset: 8 })
    window.push([entry(9)])
    expect(window.take(position)).toMatchObject({ type: 'gap' })
    expect(window.take(position)).toMatchObject({ publications: [{ cursor: 'c9' }] })
    expect(window.take(position)).toBeNull()
    expect(window.held).toBe(1)
  })

  test('makes all positions read the log after a jump', () => {
    const window = open('needed')
    const position = window.attach({ epoch: EPOCH, offset: 0 })!
    window.push(entries(1, 3))
    window.jump(50)
    expect(window.held).toBe(0)
    expect(window.take(position)).toBe('behind')
    window.detach(position)
    window.push(entries(51, 52))
    expect(window.held).toBe(0)
  })
})
