import { describe, expect, test } from 'vitest'
import { type Cause, stepsOf, type WhyKind } from '../../src/rules/why.ts'

const cause = (key: string, kind: WhyKind, causes: string[] = []): Cause => ({
  key,
  kind,
  text: key,
  at: new Date(0),
  causes,
})
const brief = (causes: Cause[]) => stepsOf(causes).map(({ kind, id, causes: from }) => [kind, id, from])

describe('the steps of a trace', () => {
  test('name their causes by index', () => {
    expect(brief([cause('m', 'MESSAGE', ['r']), cause('r', 'RUN', ['h', 'unknown']), cause('h', 'HUMAN')])).toEqual([
      ['MESSAGE', 'm', [1]],
      ['RUN', 'r', [2]],
      ['HUMAN', 'h', []],
    ])
  })

  test('reveal nothing that is hidden or erased', () => {
    const [, hidden, erased] = stepsOf([cause('m', 'MESSAGE', ['x', 'y']), cause('x', 'HIDDEN'), cause('y', 'ERASED')])
    for (const step of [hidden, erased]) expect(step).toMatchObject({ id: null, at: null })
    expect(JSON.stringify([hidden?.text, erased?.text])).not.toMatch(/"[xy]"/)
  })

  test('are merged for hidden neighbours that come from each other, or lead to the same step', () => {
    const causes = [
      cause('m', 'MESSAGE', ['a', 'b']),
      cause('a', 'HIDDEN', ['c']),
      cause('b', 'HIDDEN', ['r']),
      cause('c', 'HIDDEN', ['r']),
      cause('r', 'RUN', ['d']),
      cause('d', 'HIDDEN'),
    ]
    expect(brief(causes)).toEqual([
      ['MESSAGE', 'm', [1]],
      ['HIDDEN', null, [2]],
      ['RUN', 'r', [3]],
      ['HIDDEN', null, []],
    ])
  })

  test('are at most 500, and refer to none beyond', () => {
    const causes = Array.from({ length: 600 }, (_, n) => cause(`${n}`, 'RUN', [`${n + 1}`]))
    const steps = stepsOf(causes)
    expect(steps).toHaveLength(500)
    expect(steps.at(-1)?.causes).toEqual([])
  })
})
