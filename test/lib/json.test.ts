import { describe, expect, test } from 'vitest'
import { toJson } from '../../src/lib/json.ts'
import { checkJsonSize } from '../../src/lib/validate.ts'

describe('JSON for PostgreSQL', () => {
  test('NUL is dropped and lone surrogates are replaced, in keys too', () => {
    expect(toJson({ 'k\0': ['a\0b', '\ud800', '😀'] })).toEqual({ k: ['ab', '\ufffd', '😀'] })
  })

  test('text that only looks like a Unicode escape stays unchanged', () => {
    expect(toJson(['\\u0000', '\\ud800', '\\\\u0000'])).toEqual(['\\u0000', '\\ud800', '\\\\u0000'])
  })

  test('values that JSON does not support become null or are omitted', () => {
    expect(toJson(undefined)).toBeNull()
    expect(toJson([undefined, { a: undefined, b: new Date(0) }])).toEqual([null, { b: '1970-01-01T00:00:00.000Z' }])
  })

  test('JSON that is too large or too deep is refused with the name of the field', () => {
    const refused = expect.objectContaining({ code: 'BAD_INPUT', field: 'input.result' })
    const nested = (depth: number) => JSON.parse('['.repeat(depth) + ']'.repeat(depth))
    checkJsonSize(nested(200), 'input.result')
    for (const value of ['x'.repeat(262_144), nested(202), nested(100_000)]) {
      expect(() => checkJsonSize(value, 'input.result')).toThrow(refused)
    }
  })
})
