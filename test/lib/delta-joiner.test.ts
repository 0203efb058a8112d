import { describe, expect, test } from 'vitest'
import { createDeltaJoiner } from '../../src/lib/delta-joiner.ts'
import { until } from '../support/until.ts'

const AT_ONE_PLACE = { intervalMs: 30, place: 'here' }
/** Longer than a slow machine takes to come to the next statement. */
const LONG_INTERVAL_MS = 400

describe('a joiner of deltas', () => {
  test('sends the first piece of each key at once, and joins what comes within the interval', async () => {
    const sent: string[] = []
    const joiner = createDeltaJoiner(AT_ONE_PLACE, (key, text) => sent.push(`${key}=${text}`))
    for (const piece of ['a', 'b', 'c']) joiner.push('x', piece)
    expect(sent).toEqual(['x=a'])
    await until('the rest is sent', () => sent.length === 2)
    expect(sent).toEqual(['x=a', 'x=bc'])
  })

  test('sends what is held before the first piece of another key, and when it is told to', () => {
    const sent: string[] = []
    const joiner = createDeltaJoiner(AT_ONE_PLACE, (key, text) => sent.push(`${key}=${text}`))
    for (const [key, piece] of ['xa', 'xb', 'yc', 'yd'].map(([key = '', piece = '']) => [key, piece] as const)) {
      joiner.push(key, piece)
    }
    joiner.flush()
    expect(sent).toEqual(['x=a', 'x=b', 'y=c', 'y=d'])
  })

  test('sends at the same time as all others of its place, so that readers are woken once', async () => {
    const sent: string[] = []
    let turns = 0
    const joiners = ['one', 'two', 'three'].map((name) =>
      createDeltaJoiner({ ...AT_ONE_PLACE, intervalMs: LONG_INTERVAL_MS }, (_, text) =>
        sent.push(`${name}=${text} in turn ${turns}`),
      ),
    )
    for (const joiner of joiners) joiner.push('x', 'first')
    sent.length = 0
    for (const joiner of joiners) {
      joiner.push('x', 'later')
      await new Promise((resolve) => setTimeout(resolve, 2))
      turns += 1
    }
    const counting = setInterval(() => {
      turns += 1
    }, 1)
    await until('all have sent', () => sent.length === 3)
    clearInterval(counting)
    const [turn] = sent.map((one) => one.split('turn ')[1])
    expect(sent).toEqual(['one', 'two', 'three'].map((name) => `${name}=later in turn ${turn}`))
  })

  test('sends each piece at once where there is no interval', () => {
    const sent: string[] = []
    const joiner = createDeltaJoiner({ ...AT_ONE_PLACE, intervalMs: 0 }, (_, text) => sent.push(text))
    for (const piece of ['a', 'b']) joiner.push('x', piece)
    expect(sent).toEqual(['a', 'b'])
  })
})
