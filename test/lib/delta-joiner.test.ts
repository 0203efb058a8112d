import { afterEach, describe, expect, test, vi } from 'vitest'
import { createDeltaJoiners } from '../../src/lib/delta-joiner.ts'
import { until } from '../support/until.ts'

const AT_ONE_PLACE = { intervalMs: 30, place: 'here' }
const { joiner } = createDeltaJoiners()

describe('a joiner of deltas', () => {
  afterEach(() => void vi.useRealTimers())

  test('sends the first piece of each key at once, and joins those that follow within the interval', async () => {
    const sent: string[] = []
    const own = joiner(AT_ONE_PLACE, (key, text) => sent.push(`${key}=${text}`))
    for (const piece of ['a', 'b', 'c']) own.push('x', piece)
    expect(sent).toEqual(['x=a'])
    await until('the rest is sent', () => sent.length === 2)
    expect(sent).toEqual(['x=a', 'x=bc'])
  })

  test('sends held pieces before the first piece of another key, and on flush', () => {
    const sent: string[] = []
    const own = joiner(AT_ONE_PLACE, (key, text) => sent.push(`${key}=${text}`))
    for (const [key, piece] of ['xa', 'xb', 'yc', 'yd'].map(([key = '', piece = '']) => [key, piece] as const)) {
      own.push(key, piece)
    }
    own.flush()
    expect(sent).toEqual(['x=a', 'x=b', 'y=c', 'y=d'])
  })

  test('sends at the same time as other joiners of its destination, so that readers wake once', () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const sent: string[] = []
    const names = ['one', 'two', 'three']
    const joiners = names.map((name) =>
      joiner({ ...AT_ONE_PLACE, place: 'there' }, (_, text) => sent.push(`${name}=${text}`)),
    )
    for (const own of joiners) own.push('x', 'first')
    sent.length = 0
    for (const own of joiners) {
      own.push('x', 'later')
      vi.advanceTimersByTime(AT_ONE_PLACE.intervalMs / joiners.length - 1)
    }
    expect(sent).toEqual([])
    vi.advanceTimersByTime(joiners.length)
    expect(sent).toEqual(names.map((name) => `${name}=later`))
  })

  test('does not wait for joiners of another application in the process', () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const sent: string[] = []
    const others = createDeltaJoiners().joiner(AT_ONE_PLACE, (_, text) => sent.push(`other=${text}`))
    const own = joiner(AT_ONE_PLACE, (_, text) => sent.push(`own=${text}`))
    for (const each of [others, own]) each.push('x', 'first')
    others.push('x', 'later')
    vi.advanceTimersByTime(AT_ONE_PLACE.intervalMs / 2)
    own.push('x', 'later')
    sent.length = 0
    vi.advanceTimersByTime(AT_ONE_PLACE.intervalMs / 2)
    expect(sent).toEqual(['other=later'])
    own.flush()
  })

  test('sends each piece immediately without an interval', () => {
    const sent: string[] = []
    const own = joiner({ ...AT_ONE_PLACE, intervalMs: 0 }, (_, text) => sent.push(text))
    for (const piece of ['a', 'b']) own.push('x', piece)
    expect(sent).toEqual(['a', 'b'])
  })
})
