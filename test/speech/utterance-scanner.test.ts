import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createUtteranceScanner } from '../../src/speech/utterance-scanner.ts'

function scan(json: string, cuts: number[] = []) {
  const scanner = createUtteranceScanner('text', { namesSpace: true })
  const places = [...new Set(cuts.map((cut) => cut % (json.length + 1)))].sort((a, b) => a - b)
  const pieces = [...places, json.length].map((end, index, all) => json.slice(all[index - 1] ?? 0, end))
  const text = pieces.map((piece) => scanner.push(piece)).join('')
  return { text, spaceId: scanner.spaceId(), mention: scanner.mention() }
}

describe('an utterance while it is written', () => {
  test('nothing is given before the space is known; then all that came before at once', () => {
    const scanner = createUtteranceScanner('text', { namesSpace: true })
    expect(scanner.push('{"text":"Good mor')).toBe('')
    expect(scanner.push('ning","spaceId":"spc')).toBe('')
    expect(scanner.spaceId()).toBeNull()
    expect(scanner.push('_1"')).toBe('Good morning')
    expect(scanner.spaceId()).toBe('spc_1')
  })

  test('white space alone does not begin a text, and is not lost', () => {
    const scanner = createUtteranceScanner('text', { namesSpace: true })
    expect(scanner.push('{"spaceId":"spc_1","text":" \\n')).toBe('')
    expect(scanner.push('Hi')).toBe(' \nHi')
  })

  test('a mention is known when its closing quote has come', () => {
    const scanner = createUtteranceScanner('text', { namesSpace: true })
    scanner.push('{"mention":"agt')
    expect(scanner.mention()).toBeNull()
    scanner.push('_1",')
    expect(scanner.mention()).toBe('agt_1')
  })

  test('fields of nested objects are others', () => {
    const wait = { for: [{ type: 'entity', entityId: 'e', text: 'no', spaceId: 'no', mention: 'no' }] }
    expect(scan(JSON.stringify({ wait, spaceId: 'spc_1', text: 'yes' }))).toEqual({
      text: 'yes',
      spaceId: 'spc_1',
      mention: null,
    })
  })

  test('whatever the text, the order of the fields and where the deltas are cut: the same comes out', () => {
    const text = fc
      .string({ unit: 'binary', minLength: 1 })
      .filter((value) => value.isWellFormed() && value.trim() !== '')
    const order = fc.shuffledSubarray(['spaceId', 'text', 'mention', 'wait'], { minLength: 4 })
    fc.assert(
      fc.property(text, order, fc.array(fc.nat(400), { maxLength: 20 }), (said, fields, cuts) => {
        const values: Record<string, unknown> = { spaceId: 'spc_1', text: said, mention: 'agt_1', wait: { for: [] } }
        const json = JSON.stringify(Object.fromEntries(fields.map((field) => [field, values[field]])))
        expect(scan(json, cuts)).toEqual({ text: said.replaceAll('\0', ''), spaceId: 'spc_1', mention: 'agt_1' })
      }),
    )
  })
})
