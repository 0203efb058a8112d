import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { highlighted } from '../../web/ui/highlight.ts'

const marked = (code: string, language: string) =>
  highlighted(code, language)
    .map(({ text, kind }) => (kind === null ? text : `<${kind[0]}:${text}>`))
    .join('')

describe('the colours of code', () => {
  test.each([
    ['ts', 'const a = "if" // if 1', '<k:const> a = <s:"if"> <c:// if 1>'],
    ['python', "def f(): # x\n  return 'a' + 1.5", "<k:def> f(): <c:# x>\n  <k:return> <s:'a'> + <n:1.5>"],
    ['sql', 'SELECT a -- b\nFROM t', '<k:SELECT> a <c:-- b>\n<k:FROM> t'],
    ['js', '/* a\nb */ x1 = `c\nd`', '<c:/* a\nb */> x1 = <s:`c\nd`>'],
    ['js', 'a /* b', 'a <c:/* b>'],
    ['', 'if 1', 'if 1'],
    ['ts', "it's", "it's"],
  ])('%s: %s', (language, code, expected) => {
    expect(marked(code, language)).toBe(expected)
  })

  test('highlighted code keeps its text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.constantFrom('ts', 'sh', 'sql', 'x'), (code, language) => {
        expect(
          highlighted(code, language)
            .map(({ text }) => text)
            .join(''),
        ).toBe(code)
      }),
    )
  })

  test.each(['"', '`', '/*', '/* ', '\\"', '\\`', '1.', 'a_'])('10,000 characters of %s take little time', (piece) => {
    const code = piece.repeat(10_000).slice(0, 10_000)
    const before = process.cpuUsage()
    highlighted(code, 'ts')
    const { user } = process.cpuUsage(before)
    expect(user / 1000).toBeLessThan(400)
  })
})
