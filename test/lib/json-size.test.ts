import { describe, expect, test } from 'vitest'
import { jsonTextSize } from '../../src/lib/json-size.ts'

describe('the size of a text as JSON', () => {
  const exactly = (text: string) => Buffer.byteLength(JSON.stringify(text))

  test.each([
    ['letters', 'a b ~ ! # [ ]'],
    ['quotation marks', 'he said "no"'],
    ['backslashes', 'a\\b'],
    ['line breaks and tabs', 'a\n\tb'],
    ['other control characters', 'a\u0000\u001f\u007f\u009f'],
    ['accents', 'äéñ\u00a0'],
    ['Chinese', '漢字'],
    ['emoji', 'a😀'],
    ['a surrogate that stands alone', 'a\ud800b\udfff'],
    ['private characters', '\ue000\uffff'],
  ])('is exact for long texts: %s', (_, piece) => {
    const text = piece.repeat(100)
    expect(jsonTextSize(text)).toBe(exactly(text))
  })

  test('is exact or slightly too high for short texts', () => {
    expect(jsonTextSize('a "b"\n漢')).toBe(exactly('a "b"\n漢'))
    expect(jsonTextSize('😀')).toBeGreaterThanOrEqual(exactly('😀'))
  })
})
