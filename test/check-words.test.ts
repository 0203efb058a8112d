import { describe, expect, test } from 'vitest'
import { findings, type Kind, proseOf } from '../scripts/words.ts'

describe('check:words', () => {
  test.each<[kind: Kind, text: string, advice: RegExp]>([
    ['comment', 'What an agent pursues.', /begin with the subject/],
    ['comment', 'Ends the run. Who watches it gets an event.', /begin with the subject/],
    ['comment', 'Of a cycle the last step only.', /begin with the subject/],
    ['document', '**Retention.** What is older is deleted.', /begin with the subject/],
    ['comment', 'Answers with the row, or null.', /Returns/],
    ['comment', '@returns whether the viewer is told of it', /published, delivered/],
    ['string', 'It stands here twice.', /name the subject/],
    ['string', 'This is not a number.', /name the subject/],
    ['string', 'the call was carried out', /executed/],
    ['document', 'A crowd that comes back is answered together.', /concurrent subscribers/],
    ['document', 'The worker puts back what it has in hand.', /claimed, released/],
    ['comment', 'Rings the bell of the topic.', /wake-up signal/],
    ['comment', 'The aftermath of a run.', /crash recovery/],
    ['string', 'A run that the message set off', /started, triggered/],
    ['comment', 'The message on which a thread hangs: replies hang on it.', /thread/],
    ['document', 'The stream goes on while calls wait.', /continue/],
    ['comment', 'Null for content that is no text.', /is not a/],
    ['comment', 'Drops the row, also if it is locked.', /even if/],
  ])('finds in a %s: %s', (kind, text, advice) => {
    expect(findings(text, kind).join('\n')).toMatch(advice)
  })

  test.each<[kind: Kind, text: string]>([
    ['comment', 'Returns the row, or null.'],
    ['comment', 'It writes once; it never reads.'],
    ['document', 'What is a space? A room with members.'],
    ['document', 'The reader sees which agents ran, and what each run cost.'],
    ['document', 'The title was "What is told is kept first".'],
    ['document', 'See [the benchmark](../bench/results/crowd.md) and `aftermath.ts`.'],
    ['string', 'Duplicate fallback model: openai:gpt-5.'],
    ['string', 'This space does not exist, or you cannot see it.'],
    ['string', 'could not count active runs'],
    ['comment', 'There is no text before it.'],
    ['comment', 'Reads the last step, and also writes the next one.'],
  ])('accepts in a %s: %s', (kind, text) => {
    expect(findings(text, kind)).toEqual([])
  })

  test('reads comments, strings and JSX text of TypeScript, with their lines', () => {
    const source = [
      "import { run } from './run.ts'",
      '/**',
      ' * Ends the run,',
      ' * once.',
      ' */',
      "const URL = 'http://localhost' // Local",
      '// only.',
      'throw new Error(`No run $' + '{id} here.`)',
      'return <p>You left the space.</p>',
      'const sql = `SELECT id FROM "Run" WHERE told`',
    ].join('\n')
    expect(proseOf('src/a.tsx', source)).toEqual([
      { line: 2, text: 'Ends the run, once.', kind: 'comment' },
      { line: 6, text: 'Local only.', kind: 'comment' },
      { line: 8, text: 'No run value here.', kind: 'string' },
      { line: 9, text: 'You left the space.', kind: 'string' },
    ])
  })

  test('reads only comments, titles and awaited conditions of tests', () => {
    const source = [
      "describe.each(STACKS)('the log on %s', () => {",
      '  // The first entry.',
      "  test('returns its entries', async () => {",
      "    await until('two entries exist', async () => (await entries('What is it?')).length === 2)",
      "    expect(await ask('Who is told?')).toBe('It is heard.')",
    ].join('\n')
    expect(proseOf('test/a.test.ts', source).map(({ line, text }) => [line, text])).toEqual([
      [1, 'the log on %s'],
      [2, 'The first entry.'],
      [3, 'returns its entries'],
      [4, 'two entries exist'],
    ])
  })

  test('reads paragraphs, list items and table rows of Markdown, and no code blocks', () => {
    const page = '# Title\n\nOne\nparagraph.\n\n```ts\n// code\n```\n- item one\n- item two\n\n| a | b |\n|---|---|\n'
    expect(proseOf('docs/a.md', page).map(({ line, text }) => [line, text])).toEqual([
      [1, 'Title'],
      [3, 'One paragraph.'],
      [9, 'item one'],
      [10, 'item two'],
      [12, '| a | b |'],
      [13, '|---|---|'],
    ])
  })

  test('reads the comments of a Prisma schema', () => {
    const schema = 'model Run {\n  /// The lease\n  /// of the worker.\n  leaseUntil DateTime?\n}\n'
    expect(proseOf('prisma/schema.prisma', schema)).toEqual([
      { line: 2, text: 'The lease of the worker.', kind: 'comment' },
    ])
  })
})
