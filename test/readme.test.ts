import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { buildSchema, parse, validate } from 'graphql'
import { describe, expect, test } from 'vitest'

const ROOT = path.resolve(import.meta.dirname, '..')
const textOf = (file: string) => readFileSync(path.join(ROOT, file), 'utf8')
const readme = textOf('README.md')

describe('the README', () => {
  const operations = [...readme.matchAll(/```graphql\n(.*?)```/gs)].map(([, text]) => text ?? '')

  test('has operations to paste', () => {
    expect(operations.length).toBeGreaterThan(4)
  })

  test.each(operations)('shows an operation that the schema has: %s', (operation) => {
    const schema = buildSchema(textOf('schema.graphql'))
    expect(validate(schema, parse(operation)).map(({ message }) => message)).toEqual([])
  })

  test('names every setting that there is, and no other', () => {
    const names = (text: string, pattern: RegExp) =>
      [...new Set([...text.matchAll(pattern)].map(([, name]) => name))].sort()
    const files = ['src/config.ts', ...globSync('src/config/*.ts', { cwd: ROOT })].map(textOf)
    const settings = names(files.join('\n'), /^ {2}([A-Z][A-Z_]+): /gm)
    const table = readme.slice(readme.indexOf('| setting |'))
    expect(names(table, /`((?:PARLEY|AUTH|OPENAI|OTEL)_[A-Z_]+|PORT|HOST|DATABASE_URL|REDIS_URL|DATA_DIR)`/g)).toEqual(
      settings,
    )
  })

  test('names commands that there are', () => {
    const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> }
    const named = [...readme.matchAll(/npm run ([a-z:]+)/g)].map(([, name]) => name)
    expect(named.filter((name) => !((name ?? '') in scripts))).toEqual([])
  })

  test('links to files that there are', () => {
    const links = [...readme.matchAll(/\]\((?!http)([^)]+)\)/g)].map(([, link]) => link ?? '')
    expect(links.length).toBeGreaterThan(0)
    expect(links.filter((link) => !existsSync(path.join(ROOT, link)))).toEqual([])
  })
})

describe('the documentation', () => {
  const files = globSync('{src,client,web,examples,test,scripts,bench,prisma}/**/*.{ts,tsx,prisma}', { cwd: ROOT })

  test.each(['README.md', ...globSync('docs/**/*.md', { cwd: ROOT })])('%s names files that there are', (page) => {
    const named = [...textOf(page).matchAll(/`([\w./-]+\.(?:ts|prisma))`/g)].map(([, name]) => name ?? '')
    expect(named.filter((name) => !files.some((file) => `/${file}`.endsWith(`/${name}`)))).toEqual([])
  })
})
