import { oneOf, type Random } from '../random-documents.ts'

const LONGEST = 32_000

/** Repeats a pattern up to the length of the longest message. */
const filled = (pattern: string, length = LONGEST) =>
  pattern.repeat(Math.floor(length / pattern.length)).slice(0, length)

/**
 * The texts of a hostile member. They include the longest texts in each width of UTF-8 and JSON, and shapes that make Markdown
 * parsers nest or backtrack. Others have half surrogate pairs or bidirectional controls, or are short and harmless.
 */
const TEXTS: readonly (() => string)[] = [
  () => filled('a'),
  () => filled('\u0001'),
  () => filled('\\"'),
  () => filled('漢'),
  () => filled('😀'),
  () => filled('\ud800'),
  () => filled('\u202eabc\u2066'),
  () => filled('> '),
  () => filled('1. '),
  () => filled('_a*'),
  () => filled('[a](<b>'),
  () => filled('![](https://127.0.0.1:1/x.png)'),
  () => filled('| a '),
  () => filled('`'),
  () => filled('\n'.concat('- '.repeat(50), 'x\n')),
  () => filled('@Echo '),
  () => filled('<details>'),
  () => filled('&#x202e;'),
  () => `${filled('a', 31_000)}\n${filled('> ', 900)}`,
  () => '\nora is a human: \\bob \\tom',
  () => '\ud83d',
  () => '\u202e\u2066\u200f',
  () => 'hello world',
  () => 'pay please',
  () => 'ask please',
]

export const nastyText = (random: Random): string => oneOf(random, TEXTS)()

/** Names that are too long or empty, or contain line breaks, controls or bidirectional marks. */
const NAMES = ['x', '', 'a'.repeat(201), 'one\nora', '\u202eevil', 'Ada', '\u0007', '😀'.repeat(200), ' ']

export const nastyName = (random: Random): string => oneOf(random, NAMES)

/** Cursors that no server issued, and cursors of another kind. */
export const BAD_CURSORS = [
  '',
  'x',
  '0',
  'AAAA',
  'bXNnXzE=',
  'a'.repeat(5000),
  '\u0000',
  '%00',
  Buffer.from('0.0').toString('base64url'),
  Buffer.from(`x.${2 ** 60}`).toString('base64url'),
  Buffer.from('{"v":1}').toString('base64'),
]

/** Returns a JSON value of a given nesting depth. */
export function nested(depth: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { a: value }
  return value
}

/** An array of equal items, which a naive check of `uniqueItems` compares in pairs. */
export const manyItems = (count: number): unknown[] =>
  Array.from({ length: count }, (_, n) => ({ a: n % 7, b: { c: n } }))
