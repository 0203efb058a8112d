import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeUtf8, inexactNumberIn, parseExactJson } from '../../src/lib/exact-json.ts'

describe('the JSON of clients', () => {
  test.each([
    '9007199254740992',
    '-9007199254740993',
    '1234567890123456789012345678901234567890',
    '1e400',
    '-1E+0309',
    '-17e308',
    `1${'0'.repeat(309)}.5`,
  ])('the number %s is refused and named, in any position', (number) => {
    for (const json of [
      number,
      `[1,"x",${number}]`,
      `{"a":{"\\"b\\\\":[ ${number} ]}}`,
      `["${'1'.repeat(20)}",${number}]`,
    ]) {
      expect(inexactNumberIn(json)).toBe(number)
      expect(() => parseExactJson(json)).toThrow(`The number ${number.slice(0, 40)}`)
    }
  })

  test.each([
    '9007199254740991',
    '-9007199254740991',
    '0.1234567890123456789',
    '1e308',
    '6.02214076e23',
    '1e-400',
    '"9007199254740993"',
    '"\\"9007199254740993"',
    '["\\\\","1e400"]',
    '{"1234567890123456789":"\\\\\\"1e999"}',
  ])('%s is accepted', (json) => {
    expect(parseExactJson(json)).toEqual(JSON.parse(json))
  })

  test('invalid JSON is a SyntaxError, with any numbers', () => {
    for (const text of ['', '{', '[1e400', '"9007199254740993', '01e400'])
      expect(() => parseExactJson(text)).toThrow(SyntaxError)
  })

  test('a number is refused exactly if JSON.parse would change it (property)', () => {
    const digits = fc.stringMatching(/^(0|[1-9]\d{0,320})$/)
    const number = fc.oneof(
      digits,
      fc.tuple(digits, fc.integer({ min: -500, max: 500 })).map(([whole, exponent]) => `-${whole}.5e${exponent}`),
    )
    const text = fc
      .string({ unit: fc.constantFrom('"', '\\', '1', '9'.repeat(17), 'e999', ',', 'é') })
      .map((value) => JSON.stringify(value))
    const json = fc.array(fc.oneof(number, text)).map((items) => `[${items.join(',')}]`)
    fc.assert(
      fc.property(json, (given) => {
        let expected: string | null = null
        JSON.parse(given, (_key, value, context?: { source: string }) => {
          const isChanged = /^-?\d+$/.test(context?.source ?? '')
            ? !Number.isSafeInteger(value)
            : !Number.isFinite(value)
          if (typeof value === 'number' && isChanged) expected ??= context?.source ?? ''
          return value
        })
        expect(inexactNumberIn(given)).toBe(expected)
      }),
    )
  })
})

test('UTF-8 is decoded with or without a byte order mark; other bytes are refused', () => {
  expect(decodeUtf8(Buffer.from('\uFEFFZoë 🍅'))).toBe('Zoë 🍅')
  expect(decodeUtf8(Buffer.from('Zo\uFFFD'))).toBe('Zo\uFFFD')
  for (const bytes of [
    Buffer.from('Zoë', 'latin1'),
    Buffer.from('Zoë', 'utf16le').subarray(0, 5),
    Buffer.of(0xed, 0xa0, 0x80),
  ])
    expect(() => decodeUtf8(bytes)).toThrow('not valid UTF-8')
})
