import fastCheck from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createTextFieldScanner } from '../../src/posting/text-field.ts'

function scan(deltas: string[], field?: string): string[] {
  const scanner = createTextFieldScanner(field)
  return deltas.map((delta) => scanner.push(delta))
}

/** Cuts a text at the given positions. */
function cut(text: string, places: number[]): string[] {
  const sorted = [0, ...places.map((place) => place % (text.length + 1)).sort((a, b) => a - b), text.length]
  return sorted.slice(1).map((end, index) => text.slice(sorted[index], end))
}

const anyText = fastCheck.string({ unit: 'binary', maxLength: 40 })
const anyObject = fastCheck
  .tuple(
    fastCheck.array(fastCheck.tuple(fastCheck.oneof(anyText, fastCheck.constant('text')), fastCheck.jsonValue())),
    fastCheck.oneof(anyText, fastCheck.jsonValue()),
    fastCheck.nat(5),
  )
  .map(([entries, text, at]) => {
    const others = entries.filter(([key]) => key !== 'text')
    return Object.fromEntries([...others.slice(0, at), ['text', text] as const, ...others.slice(at)])
  })
const anySpelling = fastCheck.constantFrom(
  (value: unknown) => JSON.stringify(value),
  (value: unknown) => JSON.stringify(value, null, 2),
  (value: unknown) => JSON.stringify(value).replace(/[^\0-\x7f]/g, escapeUnit),
  // Writes every character of a string, including the key, as an escape.
  (value: unknown) =>
    JSON.stringify(value).replace(/"(?:[^"\\]|\\.)*"/g, (string) => string.replace(/(?<!\\)x/g, '\\u0078')),
)

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}

describe('the text field scanner', () => {
  test('returns for each delta the characters that it adds', () => {
    expect(scan(['{"te', 'xt":"He', 'llo', ', you"', '}'])).toEqual(['', 'He', 'llo', ', you', ''])
  })

  test('decodes escapes that are split over deltas', () => {
    expect(scan(['{"text":"a\\', 'n\\u00', 'e', '9\\"\\\\', '\\/"}'])).toEqual(['a', '\n', '', 'é"\\', '/'])
  })

  test('never splits a surrogate pair, escaped or not', () => {
    expect(scan(['{"text":"\\ud83d', '\\ude00"}'])).toEqual(['', '😀'])
    expect(scan(['{"text":"x\ud83d', '\ude00y"}'])).toEqual(['x', '😀y'])
  })

  test('keeps a surrogate without its partner as JSON.parse does', () => {
    expect(scan(['{"text":"\\ud83d', 'x\\ud83d', '"}'])).toEqual(['', '\ud83dx', '\ud83d'])
  })

  test('is not misled by keys and strings that look like the field', () => {
    const input = {
      a: '"text":"no"',
      b: { text: 'no' },
      c: ['text', { text: 'no' }],
      texts: 'no',
      text: 'yes',
      z: 'text',
    }
    expect(scan([...JSON.stringify(input)]).join('')).toBe('yes')
  })

  test('returns nothing if the field is missing or not a string', () => {
    for (const json of [
      '{}',
      '{"text":null}',
      '{"text":{"text":"no"}}',
      '{"text":["no"]}',
      '["text","no"]',
      '"text"',
      'text',
    ]) {
      expect(scan([...json]).join('')).toBe('')
    }
  })

  test('detects that the field is complete, and uses the first of two occurrences', () => {
    const scanner = createTextFieldScanner('message')
    scanner.push('{"message":"one')
    expect(scanner.isComplete()).toBe(false)
    expect(scanner.push('","message":"two"}')).toBe('')
    expect(scanner.isComplete()).toBe(true)
  })

  test('equals JSON.parse for any object, any escaping and any split into deltas', () => {
    fastCheck.assert(
      fastCheck.property(anyObject, anySpelling, fastCheck.array(fastCheck.nat()), (object, spell, places) => {
        const json = spell(object)
        const deltas = scan(cut(json, places))
        const parsed = (JSON.parse(json) as { text: unknown }).text
        expect(deltas.join('')).toBe(typeof parsed === 'string' ? parsed : '')
        if (typeof parsed === 'string' && parsed.isWellFormed()) {
          expect(deltas.every((delta) => delta.isWellFormed())).toBe(true)
        }
      }),
      { numRuns: 500 },
    )
  })

  test('reads 50,000 characters in deltas of four within a few milliseconds', () => {
    const text = 'A line of prose, "quoted" and\nbroken. 😀 '.repeat(1_200)
    const json = JSON.stringify({ text })
    const deltas = json.match(/[\s\S]{1,4}/g) as string[]
    const timings = Array.from({ length: 5 }, () => {
      const start = performance.now()
      expect(scan(deltas).join('')).toBe(text)
      return performance.now() - start
    })
    // The limit is ten times the usual time, to allow for busy machines. Parsing everything again would take seconds.
    expect(Math.min(...timings)).toBeLessThan(50)
  })
})
