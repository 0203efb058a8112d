import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { messageCharacters } from '../../src/lib/validate.ts'
import { createUtteranceScanner } from '../../src/posting/streaming-text.ts'

function scan(json: string, cuts: number[] = []) {
  const scanner = createUtteranceScanner('text')
  const places = [...new Set(cuts.map((cut) => cut % (json.length + 1)))].sort((a, b) => a - b)
  const pieces = [...places, json.length].map((end, index, all) => json.slice(all[index - 1] ?? 0, end))
  const text = pieces.map((piece) => scanner.push(piece)).join('')
  return { text, before: scanner.before() }
}

describe('a posted text while it is generated', () => {
  test('the fields before the text are known with its first character', () => {
    const scanner = createUtteranceScanner('text')
    expect(scanner.push('{"spaceId":"spc_1", "wait": {"for": [{"type":"any"}]}, "te')).toBe('')
    expect(scanner.push('xt": "')).toBe('')
    expect(scanner.before()).toBeNull()
    expect(scanner.push('Good mor')).toBe('Good mor')
    expect(scanner.before()).toEqual({ spaceId: 'spc_1', wait: { for: [{ type: 'any' }] } })
    expect(scanner.push('ning","mention":"agt_1"}')).toBe('ning')
    expect(scanner.before()).not.toHaveProperty('mention')
  })

  test('white space alone does not start a text, and is not lost', () => {
    const scanner = createUtteranceScanner('text')
    expect(scanner.push('{"spaceId":"spc_1","text":" \\n')).toBe('')
    expect(scanner.push('Hi')).toBe(' \nHi')
  })

  test('ignores fields of nested objects, and a text that looks like one', () => {
    const wait = { for: [{ type: 'entity', entityId: 'e", "text": "no', text: 'no', spaceId: 'no' }] }
    expect(scan(JSON.stringify({ wait, spaceId: 'spc_1', text: 'yes, "text": "no"' }))).toEqual({
      text: 'yes, "text": "no"',
      before: { wait, spaceId: 'spc_1' },
    })
  })

  test('nothing streams if too many characters precede the text', () => {
    expect(scan(JSON.stringify({ note: 'x'.repeat(30_000), text: 'Hello' }))).toEqual({ text: '', before: null })
  })

  test('for any text, order of fields and split into deltas, the result is the same', () => {
    const text = fc
      .string({ unit: 'binary', minLength: 1 })
      .filter((value) => value.isWellFormed() && value.trim() !== '' && messageCharacters(value).trim() !== '')
    const order = fc.shuffledSubarray(['spaceId', 'text', 'mention', 'wait'], { minLength: 4 })
    fc.assert(
      fc.property(text, order, fc.array(fc.nat(400), { maxLength: 20 }), (said, fields, cuts) => {
        const values: Record<string, unknown> = { spaceId: 'spc_1', text: said, mention: 'agt_1', wait: { for: [] } }
        const json = JSON.stringify(Object.fromEntries(fields.map((field) => [field, values[field]])))
        const before = fields.slice(0, fields.indexOf('text')).map((field) => [field, values[field]])
        expect(scan(json, cuts)).toEqual({ text: messageCharacters(said), before: Object.fromEntries(before) })
      }),
    )
  })
})
