import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isSameJson, jsonText } from '../../web/ui/json-text.ts'

function nested(levels: number, wrap: (inner: unknown) => unknown): unknown {
  let value: unknown = 1
  for (let level = 0; level < levels; level += 1) value = wrap(value)
  return value
}

describe('JSON as text', () => {
  test('equals the result of JSON.stringify within the limits', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        const { text, isCut } = jsonText(value)
        if (isCut) return
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
      }),
    )
    const value = { a: [1, { b: 'c' }, [], {}], d: null }
    expect(jsonText(value).text).toBe(JSON.stringify(value, null, 2))
    expect(jsonText(value, { indent: 0 }).text).toBe(JSON.stringify(value))
  })

  test.each([
    ['10,000 lists in one another', nested(10_000, (inner) => [inner])],
    ['10,000 objects in one another', nested(10_000, (inner) => ({ a: inner }))],
    ['a million numbers', Array.from({ length: 1_000_000 }, (_, at) => at)],
    ['100,000 names', Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`name ${at}`, at]))],
    ['a string of ten megabytes', 'a'.repeat(10_000_000)],
    ['lists in lists, each of many', nested(50, (inner) => Array(100).fill(inner))],
  ])('cuts %s at the limit', (_, value) => {
    const { text, isCut } = jsonText(value, { characters: 20_000 })
    expect(isCut).toBe(true)
    expect(text.length).toBeLessThan(60_000)
    expect(text).toContain('…')
  })

  test('compares two values at any depth', () => {
    const deep = () => nested(10_000, (inner) => ({ a: [inner] }))
    expect(isSameJson(deep(), deep())).toBe(true)
    expect(
      isSameJson(
        deep(),
        nested(10_001, (inner) => ({ a: [inner] })),
      ),
    ).toBe(false)
    expect(isSameJson({ a: 1, b: 2 }, { b: 2, a: 1 })).toBe(true)
    expect(isSameJson({ a: 1 }, { b: 1 })).toBe(false)
    expect(isSameJson([], {})).toBe(false)
  })
})
