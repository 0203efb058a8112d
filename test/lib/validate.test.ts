import { describe, expect, test } from 'vitest'
import { BadInputError } from '../../src/lib/errors.ts'
import { checkMessageText, checkName, messageCharacters } from '../../src/lib/validate.ts'

const range = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, index) => String.fromCharCode(first + index))
const C0 = range(0, 0x1f)
const DEL_AND_C1 = range(0x7f, 0x9f)
const named = (character: string) => `U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`

describe('the characters of names and messages', () => {
  const notInNames = [...C0, ...DEL_AND_C1, '\u2028', '\u2029', ...range(0x202a, 0x202e), ...range(0x2066, 0x2069)]

  test('a name has no control character, not even at its ends, and the refusal names the character and its position', () => {
    for (const character of notInNames) {
      for (const [name, position] of [
        [`A${character}da`, 2],
        [`Ada${character}`, 4],
        [`${character}Ada`, 1],
      ] as const) {
        const problem = `A name must not contain control characters or line breaks: remove ${named(character)} at position ${position}.`
        expect(() => checkName(name, 'input.name')).toThrow(new BadInputError(problem, 'input.name'))
      }
    }
  })

  test.each(['Ada', ' Ada ', 'آرش‌نیا', 'שלום\u200f', '👩‍👩‍👧', "O'Neil\u00a0Jr.", 'Zoë\u0308', '日本\u3000語'])(
    '%j is a name',
    (name) => expect(checkName(name, 'input.name')).toBe(name.trim()),
  )

  test('a message keeps TAB, LF and CR; other control characters are replaced, and NUL is refused', () => {
    const allowed = 'one\ttwo\r\nthree \u2028 \u202e ‌ 👩‍👩‍👧'
    expect(checkMessageText(allowed, 'input.text')).toBe(allowed)
    expect(messageCharacters(allowed)).toBe(allowed)
    for (const character of [...C0, ...DEL_AND_C1]) {
      if ('\t\n\r'.includes(character)) continue
      const replaced = '\uFFFDHi\uFFFD\uFFFD!'
      const text = `${character}Hi${character}${character}!`
      expect(messageCharacters(text)).toBe(replaced)
      if (character === '\0') expect(() => checkMessageText(text, 'input.text')).toThrow('NUL')
      else expect(checkMessageText(text, 'input.text')).toBe(replaced)
    }
  })
})
