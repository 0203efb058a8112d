import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { LIMITS, type MarkdownNode, parseMarkdown } from '../../web/ui/markdown-tree.ts'
import { runsOf } from '../support/effort.ts'

const LENGTH = 32_000
/**
 * Measured in CPU time, because a busy machine takes longer. It exceeds the 60 ms of parsing, to allow for garbage collection
 * and compilation.
 */
const MOST_CPU_MS = 400

const filled = (piece: string) => piece.repeat(Math.ceil(LENGTH / piece.length)).slice(0, LENGTH)
const halves = (first: string, second: string) =>
  filled(first).slice(0, LENGTH / 2) + filled(second).slice(0, LENGTH / 2)

/** Returns the rendered text as short markup. */
function markupOf(text: string): string {
  const { blocks } = parseMarkdown(text)
  return blocks === null ? 'plain' : blocks.map(markup).join('')
}

function markup(node: MarkdownNode): string {
  if (typeof node === 'string') return node
  const { tag, address, alt, checked, align, start, children } = node
  const attributes = Object.entries({ address, alt, checked, align, start }).filter(([, value]) => value !== undefined)
  const written = attributes.map(([name, value]) => ` ${name}=${value}`).join('')
  return `<${tag}${written}>${children.map(markup).join('')}</${tag}>`
}

function measure(nodes: readonly MarkdownNode[]): { nodes: number; depth: number } {
  let count = 0
  let deepest = 0
  const waiting: [MarkdownNode, number][] = nodes.map((node) => [node, 1])
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [node, depth] = next
    count += 1
    deepest = Math.max(deepest, depth)
    if (typeof node === 'object') for (const child of node.children) waiting.push([child, depth + 1])
  }
  return { nodes: count, depth: deepest }
}

function expectWithinLimits(text: string): void {
  const before = process.cpuUsage()
  const { blocks, limit } = parseMarkdown(text)
  const { user } = process.cpuUsage(before)
  expect(user / 1000).toBeLessThan(MOST_CPU_MS)
  if (blocks === null) {
    expect(['LONG', 'DEEP', 'MANY', 'SLOW']).toContain(limit)
    return
  }
  const { nodes, depth } = measure(blocks)
  expect(nodes).toBeLessThanOrEqual(LIMITS.nodes)
  expect(depth).toBeLessThanOrEqual(LIMITS.depth + 2)
}

describe('markdown', () => {
  test.each([
    ['**bold** *em* ~~gone~~ `code`', '<p><strong>bold</strong> <em>em</em> <del>gone</del> <code>code</code></p>'],
    ['# Head\n\n---', '<h1>Head</h1><hr></hr>'],
    ['- one\n- two', '<ul><li>one</li><li>two</li></ul>'],
    ['3. three\n4. four', '<ol start=3><li>three</li><li>four</li></ol>'],
    [
      '- [ ] open\n- [x] done',
      '<ul><li><input checked=false></input>open</li><li><input checked=true></input>done</li></ul>',
    ],
    ['> quote', '<blockquote><p>quote</p></blockquote>'],
    ['```js\nlet a\n```', '<pre><code>let a\n</code></pre>'],
    ['a\nb  \nc', '<p>a\nb<br></br>c</p>'],
    ['<b>not bold</b>', '<p><b>not bold</b></p>'],
    ['[to](https://a.example "t")', '<p><a address=https://a.example>to</a></p>'],
    ['[to][there]\n\n[there]: //evil.example', '<p><a address=//evil.example>to</a></p>'],
    ['![pic](https://a.example/p.png)', '<p><img address=https://a.example/p.png alt=pic></img></p>'],
    ['see https://a.example/b_c_d.', '<p>see <a address=https://a.example/b_c_d>https://a.example/b_c_d</a>.</p>'],
    ['(www.a.example)', '<p>(<a address=http://www.a.example>www.a.example</a>)</p>'],
    ['write ada@a.example', '<p>write <a address=mailto:ada@a.example>ada@a.example</a></p>'],
    ['[https://a.example](https://b.example)', '<p><a address=https://b.example>https://a.example</a></p>'],
    ['`https://a.example`', '<p><code>https://a.example</code></p>'],
    [
      '| a | b |\n|--|:-:|\n| 1 | 2 |',
      '<table><thead><tr><th>a</th><th align=center>b</th></tr></thead><tbody><tr><td>1</td><td align=center>2</td></tr></tbody></table>',
    ],
  ])('%j is parsed', (text, expected) => {
    expect(markupOf(text)).toBe(expected)
  })

  test.each([
    ['quotes in quotes', filled('>'), 'DEEP'],
    ['spaced quotes in quotes', filled('> '), 'DEEP'],
    ['lists in lists', filled('1. '), 'DEEP'],
    ['lists of all kinds in one another', filled('- 1. > '), 'DEEP'],
    ['emphasis in emphasis', halves('*a ', ' a*'), 'DEEP'],
    ['a table of thousands of columns', `|${'a|'.repeat(8000)}\n|${'-|'.repeat(8000)}`, 'MANY'],
    [
      'a table with empty rows is completed',
      `|${'a|'.repeat(3000)}\n|${'-|'.repeat(3000)}\n${'|\n'.repeat(9000)}`,
      'MANY',
    ],
    ['thousands of bare links', filled('http://a '), 'MANY'],
    ['thousands of links', filled('[a](http://b) '), 'MANY'],
    ['a text of a megabyte', 'a '.repeat(500_000), 'LONG'],
  ])('%s are shown as plain text', (_, text, limit) => {
    expect(parseMarkdown(text, { timeMs: 5000 })).toEqual({ blocks: null, limit })
  })

  test.each(
    [
      '_a*',
      '*a_ ',
      '**a **',
      '[',
      '[](',
      '![[',
      '![',
      '[a](<b',
      '`a',
      '<!--',
      '<a ',
      '<?',
      '<![CDATA[',
      '&amp;',
      '&',
      '<http:',
      'www.a.',
      'a.a.',
      'a@a.',
      '[^a]: ',
      '[a]: b\n',
      '[a]: <',
      '~~a~',
      '~~a ~~',
      'a\n=',
      '\n',
      ' ',
      '\\',
      'a  \n',
      '\t- ',
      '- a\n',
      '> a\n>> b\n',
      '```\n',
      '> ```\n',
      '# ',
      'a',
      '(a',
      'a <',
      '[a][b]',
      ':',
      '😀*',
      'a_b_',
      'a**',
      '\0*',
      '*_~~',
      '.a-',
      '* * ',
      'a\u0301\u0302',
      '\u202e*',
      '[a][b] [b]: c\n\n',
      '-+*',
      '|-',
      '|\n',
      '1.\n',
      '-\n\n ',
    ].map((piece) => [piece]),
  )('32,000 characters of %j are parsed or abandoned in time', (piece) => {
    expectWithinLimits(filled(piece))
  })

  test.each([
    ['backticks of every length', Array.from({ length: 250 }, (_, at) => `e${'`'.repeat(at)}`).join('')],
    ['brackets in brackets', '['.repeat(LENGTH / 2) + ']'.repeat(LENGTH / 2)],
    ['lists that go in step by step', Array.from({ length: 220 }, (_, at) => `${' '.repeat(at * 2)}- a`).join('\n')],
    ['a destination of brackets', `[a](${'('.repeat(LENGTH)}`],
    ['a reference that is used everywhere', `[b]: c\n\n${filled('[a][b] ')}`],
  ])('%s are parsed or abandoned in time', (_, text) => {
    expectWithinLimits(text)
  })

  test('any text is parsed or abandoned in time, within the limits of nodes and depth', () => {
    const marks = [...'>-+*_~`[]()!<>&|#:=\\"\'. \n\t1aé'].concat(
      '\n\n',
      '> ',
      '- ',
      '1. ',
      '](',
      '**',
      '```',
      'http://',
      '|-|',
      '\u202e',
    )
    const piece = fc.array(fc.constantFrom(...marks), { minLength: 1, maxLength: 12 }).map((parts) => parts.join(''))
    const long = fc.array(piece, { minLength: 1, maxLength: 4 }).map((pieces) =>
      pieces
        .map((one) => one.repeat(700))
        .join('')
        .slice(0, LENGTH),
    )
    const mixed = fc.array(piece, { maxLength: 300 }).map((pieces) => pieces.join(''))
    fc.assert(fc.property(fc.oneof(long, mixed), expectWithinLimits), { numRuns: runsOf({ usual: 40, nightly: 1000 }) })
  })

  test('the longest message of ordinary Markdown stays formatted', () => {
    const section =
      '## Head\n\nSome **bold** text with `code`, a [link](https://a.example) and https://b.example/c.\n\n- one\n- two\n\n'
    expect(parseMarkdown(filled(section), { timeMs: 5000 }).limit).toBeNull()
    const table = `| a | b | c |\n|---|---|---|\n${'| one | two | three |\n'.repeat(800)}`
    expect(parseMarkdown(table, { timeMs: 5000 }).limit).toBeNull()
  })
})
