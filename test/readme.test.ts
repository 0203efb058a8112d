import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { buildSchema, parse, validate } from 'graphql'
import { describe, expect, test } from 'vitest'
import { summaryOf as crowdSummaryOf } from '../bench/crowd.ts'
import { summaryOf as fanoutSummaryOf } from '../bench/support/fanout-tables.ts'

const ROOT = path.resolve(import.meta.dirname, '..')
const textOf = (file: string) => readFileSync(path.join(ROOT, file), 'utf8')
const isArchived = (page: string) => page.startsWith('docs/decisions/archive/')
const PAGES = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'SECURITY.md',
  'examples/README.md',
  ...globSync('docs/**/*.md', { cwd: ROOT, exclude: ['docs/node_modules', 'docs/.vitepress', 'docs/public'] }),
].map((page) => page.split(path.sep).join('/'))
const current = PAGES.filter((page) => !isArchived(page))

const uniqueIn = (text: string, pattern: RegExp) => [...new Set([...text.matchAll(pattern)].map(([, name]) => name))]
const SETTING = /`((?:PARLEY|AUTH|OPENAI|OTEL)_[A-Z_]+|PORT|HOST|DATABASE_URL|REDIS_URL|DATA_DIR)`/g
const settings = uniqueIn(
  ['src/config.ts', ...globSync('src/config/*.ts', { cwd: ROOT })].map(textOf).join('\n'),
  /^ {2}([A-Z][A-Z_]+): /gm,
).sort()

describe('the README', () => {
  test('fits on one or two screens', () => {
    expect(textOf('README.md').split('\n').length).toBeLessThanOrEqual(100)
  })
})

describe('the tour', () => {
  const operations = [...textOf('docs/tour.md').matchAll(/```graphql\n(.*?)```/gs)].map(([, text]) => text ?? '')

  test('has operations to paste', () => {
    expect(operations.length).toBeGreaterThan(4)
  })

  test.each(operations)('shows a valid operation: %s', (operation) => {
    const schema = buildSchema(textOf('schema.graphql'))
    expect(validate(schema, parse(operation)).map(({ message }) => message)).toEqual([])
  })
})

describe('docs/settings.md', () => {
  test('lists every setting in its tables, and no other', () => {
    const rows = textOf('docs/settings.md')
      .split('\n')
      .filter((line) => line.startsWith('| `'))
    const listed = rows.flatMap((row) => uniqueIn(row.split(' | ')[0] ?? '', SETTING))
    expect(listed.sort()).toEqual(settings)
  })
})

describe('docs/speed.md', () => {
  const page = textOf('docs/speed.md')
  const resultOf = (name: string) => JSON.parse(textOf(`bench/results/${name}.json`))
  const sectionOf = (name: string) =>
    page.slice(page.indexOf(`<!-- bench ${name} -->`), page.indexOf(`<!-- end of ${name} -->`))

  test('quotes the published results of the benchmarks', () => {
    expect(sectionOf('crowd')).toBe(`<!-- bench crowd -->\n${crowdSummaryOf(resultOf('crowd').figures)}\n`)
    expect(sectionOf('fanout')).toBe(`<!-- bench fanout -->\n${fanoutSummaryOf(resultOf('fanout').data)}\n`)
  })

  const rows = page.split('\n').filter((line) => /\]\(\.\.\/bench\/results\/[\w-]+\.md\) \|$/.test(line))

  test('has rows with their results', () => {
    expect(rows.length).toBeGreaterThan(15)
  })

  test.each(rows)('agrees with bench/results: %s', (row) => {
    const [, name = ''] = /bench\/results\/([\w-]+)\.md\) \|$/.exec(row) ?? []
    const published = textOf(`bench/results/${name}.md`)
    const [, , ...cells] = row.split('|')
    const figures = cells.join('|').match(/-?[\d.]+ (?:×|ms|s|MiB|KiB|\/s|cores|%)(?= |$)/g) ?? []
    expect(figures.length).toBeGreaterThan(0)
    expect(figures.filter((figure) => !published.includes(figure))).toEqual([])
    expect(published.includes('MISSED') || !row.includes('| missed |')).toBe(true)
    const value = `| ${figures[0]} |`
    const line = published.split('\n').find((candidate) => candidate.includes(value)) ?? ''
    const verdict = { holds: '| holds |', MISSED: '| missed |' }[/(holds|MISSED) \|$/.exec(line)?.[1] ?? '']
    expect(row).toContain(verdict ?? '| |')
  })
})

describe('the documentation', () => {
  const files = [
    'docs/.vitepress/config.ts',
    ...globSync('{src,client,web,examples,test,kits/test,scripts,bench,prisma}/**/*.{ts,tsx,prisma}', { cwd: ROOT }),
  ]
  const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> }

  test.each(current)('%s mentions only files that exist', (page) => {
    const named = uniqueIn(textOf(page), /`([\w./-]+\.(?:ts|prisma))`/g)
    expect(named.filter((name) => !files.some((file) => `/${file}`.endsWith(`/${name}`)))).toEqual([])
  })

  test.each(current)('%s mentions only commands that exist', (page) => {
    const named = uniqueIn(textOf(page), /npm run (?:--silent )?([a-z][a-z:-]*)/g)
    expect(named.filter((name) => !((name ?? '') in scripts))).toEqual([])
  })

  test('the table of commands contains only scripts that exist', () => {
    const rows = textOf('docs/contributing.md')
      .split('\n')
      .filter((line) => line.startsWith('| `') && !line.startsWith('| `npm run'))
    const named = rows.flatMap((row) => uniqueIn(row.split(' | ')[0] ?? '', /`([a-z:-]+?)(?: [^`]*)?`/g))
    expect(named.length).toBeGreaterThan(10)
    expect(named.filter((name) => !((name ?? '') in scripts))).toEqual([])
  })

  test.each(current)('%s mentions only settings that exist', (page) => {
    // The examples of the guide read the server's address and token from these two variables.
    const ofExamples = ['PARLEY_URL', 'PARLEY_TOKEN']
    const named = uniqueIn(textOf(page), SETTING).filter((name) => !ofExamples.includes(name ?? ''))
    // A family of settings is written with an ellipsis, or ends with an underscore.
    expect(named.filter((name) => !settings.includes(name) && !name?.endsWith('_'))).toEqual([])
  })

  test.each(PAGES)('%s links only to files and sections that exist', (page) => {
    const links = [
      ...textOf(page)
        .replace(/```.*?```/gs, '')
        .matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)/g),
    ]
    const broken = links.filter(([, file = '', anchor]) => {
      const target = file === '' ? page : path.join(path.dirname(page), file)
      if (!existsSync(path.join(ROOT, target))) return true
      return anchor !== undefined && target.endsWith('.md') && !anchorsOf(target).includes(anchor)
    })
    expect(broken.map(([link]) => link)).toEqual([])
  })
})

/** Returns the anchors of a page's headings, as GitHub and VitePress create them. */
function anchorsOf(page: string): string[] {
  return [...textOf(page).matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  )
}
