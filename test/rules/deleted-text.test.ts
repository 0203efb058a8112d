import { describe, expect, test } from 'vitest'
import { createTextRemoval } from '../../src/rules/deleted-text.ts'

const removed = (texts: string[], value: Parameters<ReturnType<typeof createTextRemoval>['fromJson']>[0]) =>
  createTextRemoval(texts).fromJson(value)

describe('the text of a deleted message', () => {
  test.each([
    ['a whole string', 'The heron flies at noon', 'The heron flies at noon', '[deleted]'],
    [
      'a part of a prompt',
      'The heron flies at noon',
      'Ada: The heron flies at noon\nBob: Yes',
      'Ada: [deleted]\nBob: Yes',
    ],
    ['JSON within a string', 'The "heron" flies', '{"text":"The \\"heron\\" flies"}', '{"text":"[deleted]"}'],
    ['a short quotation', 'No', 'She said "No" twice', 'She said "[deleted]" twice'],
  ])('is removed from %s', (_, text, value, expected) => {
    expect(removed([text], value)).toBe(expected)
  })

  test('a short text is removed together with the line of its file', () => {
    const file = 'notes.txt (text/plain, fil_1)'
    const whole = `look\n\n${file}`
    const without = '[deleted]\n\n[deleted]'
    const encoded = (text: string) => [text, JSON.stringify({ text }), JSON.stringify(JSON.stringify({ text }))]
    expect(encoded(whole).map((value) => removed(['look', file], value))).toEqual(encoded(without))
    expect(removed(['look', file], `Ann: "look ${file}"`)).toBe('Ann: "[deleted] [deleted]"')
    expect(removed(['look', file], `${whole}\n\nAnn: "look"`)).toBe(`${without}\n\nAnn: "[deleted]"`)
  })

  test('a short text stays where it may be part of other words', () => {
    expect(removed(['No'], 'Nobody knows')).toBe('Nobody knows')
  })

  test('never changes the words of a format, or ids', () => {
    const id = `msg_${'1'.repeat(32)}`
    const stored = [{ role: 'user', content: [{ type: 'text', text: 'user' }], toolCallId: id, spaceIds: [id] }]
    expect(removed(['user', 'text', id], stored)).toEqual([
      { role: 'user', content: [{ type: 'text', text: '[deleted]' }], toolCallId: id, spaceIds: [id] },
    ])
  })
})
